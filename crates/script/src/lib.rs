//! The sandboxed Luau VM: budgets, an allow-listed environment, the host API.
