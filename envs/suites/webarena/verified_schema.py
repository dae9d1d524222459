"""JSON values read by a schema: objects, lists, and in them the types of `verified_values`."""

import json
from collections.abc import Mapping
from typing import Any

from envs.suites.webarena.verified_urls import SiteUrls, UrlRules, read_url
from envs.suites.webarena.verified_values import read_value


class SchemaReader:
    """Reads what is wanted strictly, and what was given as far as it can be.

    Args:
        sites: For addresses in texts.
    """

    def __init__(self, sites: SiteUrls) -> None:
        self._sites = sites

    def read_data(self, data: object, schema: Mapping[str, Any], *, strict: bool) -> tuple[Any, ...] | None:
        """The list that an answer has; None: it has none.

        Raises:
            ValueError: A value is none of its type, and `strict`; or there should be no list.
        """
        if not data and not isinstance(data, int | float):
            return None
        if schema.get("type", "array") != "array":
            raise ValueError(f"there is no list to compare with {shown(data)}")
        item = schema.get("items") or {}
        values = data if isinstance(data, list | tuple) else (data,)
        if item.get("type") == "object":
            return tuple(self._read_objects(value, item, strict=strict) for value in values)
        return tuple(self._read(value, _kind_of(item), strict=strict) for value in values)

    def _read(self, value: object, kind: str, *, strict: bool) -> Any:
        """A value of a type; one that cannot be read stays as it is, unless `strict`."""
        try:
            if kind == "url":
                return read_url(value, UrlRules(sites=self._sites, strict=strict))
            return read_value(value, kind, self._sites.abstract)
        except (ValueError, TypeError, RecursionError):
            if strict:
                raise
            return value

    def _read_objects(self, value: object, schema: Mapping[str, Any], *, strict: bool) -> Any:
        if isinstance(value, list | tuple):
            return tuple(self.read_object(one, schema, strict=strict) for one in value)
        return self.read_object(value, schema, strict=strict)

    def read_object(self, value: object, schema: Mapping[str, Any], *, strict: bool) -> Any:
        """An object with the values of its properties.

        Raises:
            ValueError: It is none, or a value is none of its type, and `strict`.
        """
        if isinstance(value, str):
            parsed = parse_json(value)
            value = parsed if isinstance(parsed, dict) else value
        if not isinstance(value, Mapping):
            if strict:
                raise ValueError(f"{shown(value)} is no object")
            return value
        properties = schema.get("properties") or {}
        return {
            name: None if one is None else self._read_property(one, properties.get(name), strict=strict)
            for name, one in value.items()
        }

    def _read_property(self, value: object, schema: Mapping[str, Any] | None, *, strict: bool) -> Any:
        schema = schema or {}
        if schema.get("type") == "object":
            return self.read_object(value, schema, strict=strict)
        if schema.get("type") != "array":
            return self._read(value, _kind_of(schema), strict=strict)
        item = schema.get("items") or {}
        parsed = parse_json(value) if isinstance(value, str) else value
        if not isinstance(parsed, list | tuple):
            if strict:
                raise ValueError(f"{shown(value)} is no list")
            return value
        if item.get("type") == "object":
            return self._read_objects(parsed, item, strict=strict)
        return tuple(self._read(one, _kind_of(item), strict=strict) for one in parsed)


def parse_json(text: str) -> Any:
    """The value of a JSON text; the text itself when it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def shown(value: object) -> str:
    """A value as one short line of ASCII."""
    text = ascii(value)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _kind_of(schema: Mapping[str, Any]) -> str:
    return str(schema.get("format") or schema.get("type") or "string")
