"""Network calls: one HTTP endpoint with its key, retries and time limits; Bedrock through boto3."""
