//! Service metadata: maps with epochs, versioned programs, propagation.
