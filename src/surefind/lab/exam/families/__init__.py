"""The families of known-item questions. One family per file, each a function ExamDocuments -> drafts of a document."""
