"""Whether a language model is fit for the steps that use one: small tasks with known answers (`surefind llm check`)."""
