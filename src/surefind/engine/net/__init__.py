"""Network calls: one HTTP endpoint with retries and limits, who may receive text and keys, Bedrock through boto3."""
