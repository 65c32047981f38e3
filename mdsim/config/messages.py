"""pydantic's findings as sentences: which line and key, what is wrong, what to write instead."""

from __future__ import annotations

import re
import types
from difflib import get_close_matches
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mdsim.config.source import KeyPath, Source
from mdsim.errors import InputError

_OWN = ("quantity", "problem", "problems")
#: what pydantic expected, as the rest of "must be ..."
_EXPECTED = {
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list in [brackets]",
    "model_type": "a section with keys of its own",
    "model_attributes_type": "a section with keys of its own",
    "dict_type": "a section with keys of its own",
    "path_type": "a path",
    "none_required": "null",
}


def input_error(error: ValidationError, model: type[BaseModel], source: Source) -> InputError:
    """One InputError for everything that is wrong with ``source``."""
    findings = _by_path(error, model, source.data)
    lines = [_sentence(path, found, model, source) for path, found in findings.items()]
    if len(lines) == 1:
        return InputError(f"{source.name}, {lines[0]}")
    return InputError(f"{source.name} has {len(lines)} problems:\n" + "\n".join(f"  {line}" for line in lines))


def _by_path(error: ValidationError, model: type[BaseModel], data: Any) -> dict[KeyPath, list[tuple[str, str, Any]]]:
    """(type, text, value) of each finding, by the path of the key that it concerns."""
    findings: dict[KeyPath, list[tuple[str, str, Any]]] = {}
    for item in error.errors(include_url=False):
        path, context = _data_path(item["loc"], data, missing=item["type"] == "missing"), item.get("ctx", {})
        if item["type"] == "problems":
            for key, text in context["found"]:
                findings.setdefault((*path, *filter(None, key.split("."))), []).append(("problems", text, None))
        else:
            text = _text(item["type"], item["msg"], context, path, model)
            path = (*path, context["discriminator"].strip("'")) if item["type"] == "union_tag_invalid" else path
            findings.setdefault(path, []).append((item["type"], text, item["input"]))
    return {path: found for path, found in findings.items() if not _is_other_branch(path, found, findings)}


def _is_other_branch(path: KeyPath, found: list[tuple[str, str, Any]], findings: dict[KeyPath, Any]) -> bool:
    """True for "must be false" about a section whose keys have been looked into: a branch the user did not take."""
    deeper = any(len(other) > len(path) and other[: len(path)] == path for other in findings)
    return deeper and all(kind in ("literal_error", *_EXPECTED) for kind, _, _ in found)


def _data_path(location: tuple[int | str, ...], data: Any, missing: bool) -> KeyPath:
    """pydantic's location without the names of union branches, which are no keys of the user's."""
    path: list[int | str] = []
    for key in location[:-1] if missing else location:
        if isinstance(data, dict) and key in data:
            data = data[key]
        elif isinstance(data, list) and isinstance(key, int) and key < len(data):
            data = data[key]
        else:
            continue
        path.append(key)
    return (*path, location[-1]) if missing else tuple(path)


def _text(kind: str, message: str, context: dict[str, Any], path: KeyPath, model: type[BaseModel]) -> str:
    """What is wrong and what to write, for one finding. Texts that start with "must be " may be joined by "or"."""
    if kind in _OWN:
        return str(context.get("message") or context.get("text"))
    if kind == "extra_forbidden":
        known = known_keys(model, path[:-1])
        near = get_close_matches(str(path[-1]), known, n=1, cutoff=0.5)
        return f"is not a known key; {f'did you mean {near[0]}?' if near else 'write one of: ' + ', '.join(known)}"
    if kind == "missing":
        return f"is missing{_purpose(model, path)}"
    if kind == "union_tag_not_found":
        return f"needs a 'kind', one of: {', '.join(_tags(model, path))}"
    if kind == "union_tag_invalid":
        return f"must be {_one_of(context['expected_tags'], context['tag'])}"
    if kind == "literal_error":
        return f"must be {_one_of(context['expected'])}"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}"
    if kind in ("too_long", "too_short"):
        return f"must have {context.get('min_length', context.get('max_length'))} items"
    return re.sub(r"^Input should be ", "must be ", message)


def _one_of(expected: str, given: str | None = None) -> str:
    choices = re.findall(r"'([^']*)'", expected)
    near = get_close_matches(given, choices, n=1) if given else []
    hint = f" (did you mean {near[0]}?)" if near else ""
    return ("one of " + ", ".join(choices) if len(choices) > 1 else choices[0] if choices else expected.lower()) + hint


def _sentence(path: KeyPath, found: list[tuple[str, str, Any]], model: type[BaseModel], source: Source) -> str:
    """``line 7: dynamics.steps: must be a whole number, got 'ten'``"""
    own = [text for kind, text, _ in found if kind in _OWN]
    if own:
        text = "; ".join(dict.fromkeys(own))
    else:
        texts = list(dict.fromkeys(text for _, text, _ in found))
        joined = " or ".join(t.removeprefix("must be ") for t in texts)
        text = f"must be {joined}" if all(t.startswith("must be ") for t in texts) else "; ".join(texts)
        if text.startswith("must ") and found[0][0] != "union_tag_invalid":
            text += f", got {_shown(found[0][2])}{_near_choice(text, found[0][2])}"
        elif found[0][0] == "union_tag_invalid":
            text += f", got '{found[0][2].get(path[-1])}'" if isinstance(found[0][2], dict) else ""
    place = source.place(path)
    return f"{place + ': ' if place else ''}{_dotted(path) or 'the input'}: {text}"


def _near_choice(text: str, given: Any) -> str:
    match = re.search(r"one of (.*)$", text)
    near = get_close_matches(given, match[1].split(", "), n=1) if match and isinstance(given, str) else []
    return f"; did you mean {near[0]}?" if near else ""


def _shown(value: Any) -> str:
    text = "nothing" if value is None else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _dotted(path: KeyPath) -> str:
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")


def _purpose(model: type[BaseModel], path: KeyPath) -> str:
    """``: what the missing key is for``, with an example where its type has one."""
    for section in _models_at(model, path[:-1]):
        info = section.model_fields.get(str(path[-1]))
        if info is not None:
            examples = [m.example for m in info.metadata if hasattr(m, "example")]
            example = f"; write for instance '{path[-1]}: {examples[0]}'" if examples else ""
            return f" ({info.description}){example}" if info.description else example
    return ""


def known_keys(model: type[BaseModel], path: KeyPath) -> list[str]:
    """Keys that a section may have."""
    return list(dict.fromkeys(key for section in _models_at(model, path) for key in section.model_fields))


def _tags(model: type[BaseModel], path: KeyPath) -> list[str]:
    return [
        str(tag)
        for section in _models_at(model, path)
        if "kind" in section.model_fields
        for tag in get_args(section.model_fields["kind"].annotation)
    ]


def _models_at(model: type[BaseModel], path: KeyPath) -> list[type[BaseModel]]:
    """The section models that may stand at ``path``."""
    sections = [model]
    for key in path:
        if isinstance(key, int):
            continue  # items of a list have the list's models
        fields = [section.model_fields[key] for section in sections if key in section.model_fields]
        sections = [found for info in fields for found in _models_in(info.annotation)]
    return sections


def _models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, FieldInfo):
        annotation = annotation.annotation
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    if (
        get_origin(annotation) in (Union, types.UnionType, tuple, list, Annotated)
        and get_origin(annotation) is not Literal
    ):
        return [found for arg in get_args(annotation) for found in _models_in(arg)]
    return []
