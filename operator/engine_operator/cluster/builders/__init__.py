"""Pure builders of the complete desired objects; the executor applies what they return and adds nothing."""
