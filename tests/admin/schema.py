"""Does a value fit the schema of openapi.json? As much of JSON Schema as that file uses."""
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}


class Mismatch(AssertionError):
    pass


def _is(value, kind):
    if kind == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if kind == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[kind])


class Description:
    def __init__(self, document):
        self.document = document

    def operation(self, method, path):
        return self.document["paths"][path][method.lower()]

    def schema(self, method, path, status, content_type):
        responses = self.operation(method, path)["responses"]
        if str(status) not in responses:
            raise Mismatch(f"{method} {path}: answer {status} is not described")
        content = responses[str(status)]["content"]
        if content_type not in content:
            raise Mismatch(f"{method} {path} {status}: {content_type} is not described")
        return content[content_type]["schema"]

    def check(self, value, schema, where="$"):
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            return self.check(value, self.document["components"]["schemas"][name], where)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        if kinds and not any(_is(value, kind) for kind in kinds):
            raise Mismatch(f"{where}: {value!r} is not {kinds}")
        if "enum" in schema and value not in schema["enum"]:
            raise Mismatch(f"{where}: {value!r} is none of {schema['enum']}")
        if isinstance(value, str) and not re.search(schema.get("pattern", ""), value):
            raise Mismatch(f"{where}: {value!r} does not fit {schema['pattern']}")
        if isinstance(value, str) and schema.get("format") == "date-time":
            if not re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value):
                raise Mismatch(f"{where}: {value!r} is no RFC 3339 time")
        if isinstance(value, list):
            for number, item in enumerate(value):
                self.check(item, schema.get("items", {}), f"{where}[{number}]")
        if isinstance(value, dict):
            self._check_object(value, schema, where)

    def _check_object(self, value, schema, where):
        properties = schema.get("properties", {})
        missing = set(schema.get("required", [])) - set(value)
        if missing:
            raise Mismatch(f"{where}: {missing} missing")
        for key, item in value.items():
            if key not in properties:
                if schema.get("additionalProperties", True) is False:
                    raise Mismatch(f"{where}: {key} is not described")
                continue
            self.check(item, properties[key], f"{where}.{key}")
