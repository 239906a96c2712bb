//! A daemon: assembles roles, listens, reports.
