"""The arguments of a tool: checked, described for the client, and explained in one sentence if they are wrong."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from surefind.base.errors import UsageError
from surefind.doors.mcp.answers import DEFAULT_TOKENS, MAX_TOKENS, MIN_TOKENS

MaxTokens = Annotated[
    int, Field(DEFAULT_TOKENS, ge=MIN_TOKENS, le=MAX_TOKENS, description="The longest answer, in tokens.")
]


class Arguments(BaseModel):
    """The base of the arguments of every tool."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def read(cls, given: dict[str, Any]) -> Self:
        """Checks arguments. An argument that is null counts as missing, because some clients send all of them."""
        try:
            return cls.model_validate({name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise UsageError(cls._explained(error)) from None

    @classmethod
    def _explained(cls, error: ValidationError) -> str:
        first = error.errors()[0]
        name = ".".join(map(str, first["loc"])) or "the arguments"
        known = f"The arguments are: {', '.join(cls.model_fields)}."
        if first["type"] == "extra_forbidden":
            return f"There is no argument {name[:80]!r}. {known}"
        if first["type"] == "missing":
            return f"The argument {name} is missing. {known}"
        return f"The argument {name} is wrong: {first['msg'][:200]}."

    @classmethod
    def schema_for_clients(cls) -> dict[str, Any]:
        """Returns the JSON schema without the titles that pydantic adds: they repeat the names."""
        schema = cls.model_json_schema()
        fields = {
            name: {key: value for key, value in field.items() if key != "title"}
            for name, field in schema["properties"].items()
        }
        found = {"type": "object", "properties": fields, "additionalProperties": False}
        return found | ({"required": schema["required"]} if "required" in schema else {})
