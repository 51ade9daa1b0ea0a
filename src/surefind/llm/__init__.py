"""prompt -> text: chat models, prompts and what keeps document text apart from instructions."""
