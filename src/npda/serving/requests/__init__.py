"""What a request asks for and gets: received under limits, checked, answered in OpenAI's shapes."""
