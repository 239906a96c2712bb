//! The one public error type. Its kind says what a program should do next; all else is for people.

use std::borrow::Cow;
use std::fmt;

use crate::TargetName;

/// What came of an operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A class method's status: zero or positive is success, negative is a negated errno.
pub type Status = i32;

/// What a caller can do about an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It is not there.
    NotFound,
    /// It is there already.
    Exists,
    /// The call is wrong; fix it.
    Invalid,
    /// An epoch or version has moved on; refresh it and retry.
    Stale,
    /// Another client changed it first: read again and retry.
    Conflict,
    /// Not permitted.
    Denied,
    /// A budget or space is used up.
    Exhausted,
    /// There is no answer at present: retry later. The operation may have happened.
    Unavailable,
    /// This store cannot do it.
    Unsupported,
    /// Stored data failed its checksum or makes no sense.
    Corrupt,
    /// A program failed: see [`Error::fault`].
    Fault,
}

impl ErrorKind {
    /// Every kind, in declaration order.
    pub const ALL: [ErrorKind; 11] = [
        Self::NotFound,
        Self::Exists,
        Self::Invalid,
        Self::Stale,
        Self::Conflict,
        Self::Denied,
        Self::Exhausted,
        Self::Unavailable,
        Self::Unsupported,
        Self::Corrupt,
        Self::Fault,
    ];

    /// The positive errno by which class methods and Ceph know this kind.
    pub const fn errno(self) -> i32 {
        match self {
            Self::NotFound => 2,              // ENOENT
            Self::Exists => 17,               // EEXIST
            Self::Invalid => 22,              // EINVAL
            Self::Stale => 116,               // ESTALE
            Self::Conflict => 125,            // ECANCELED
            Self::Denied => 1,                // EPERM
            Self::Exhausted => 28,            // ENOSPC
            Self::Unavailable => 11,          // EAGAIN
            Self::Unsupported => 95,          // EOPNOTSUPP
            Self::Corrupt | Self::Fault => 5, // EIO
        }
    }

    /// Returns the kind closest to a positive errno. A class may end with any errno; an unknown one
    /// becomes `Invalid`.
    pub const fn from_errno(errno: i32) -> Self {
        match errno {
            2 | 61 => Self::NotFound,          // ENOENT, ENODATA
            17 => Self::Exists,                // EEXIST
            29 | 116 => Self::Stale,           // ESPIPE, ESTALE
            16 | 125 => Self::Conflict,        // EBUSY, ECANCELED
            1 | 13 | 30 => Self::Denied,       // EPERM, EACCES, EROFS
            12 | 28 | 122 => Self::Exhausted,  // ENOMEM, ENOSPC, EDQUOT
            4 | 11 | 110 => Self::Unavailable, // EINTR, EAGAIN, ETIMEDOUT
            38 | 95 => Self::Unsupported,      // ENOSYS, EOPNOTSUPP
            5 => Self::Fault,                  // EIO
            _ => Self::Invalid,
        }
    }

    /// The word for this kind, as it is printed and sent.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NotFound => "not found",
            Self::Exists => "exists",
            Self::Invalid => "invalid",
            Self::Stale => "stale",
            Self::Conflict => "conflict",
            Self::Denied => "denied",
            Self::Exhausted => "exhausted",
            Self::Unavailable => "unavailable",
            Self::Unsupported => "unsupported",
            Self::Corrupt => "corrupt",
            Self::Fault => "fault",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where in a program a `Fault` happened.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultSite {
    /// The program's name.
    pub program: String,
    /// Its version, 0 for a one-off script.
    pub version: u64,
    /// The line, 1-based, where known.
    pub line: Option<u32>,
    /// The calls that led to the line, innermost first. Empty if there is no traceback.
    pub traceback: String,
}

/// The public error. Text is not API; [`Error::kind`] and [`Error::status`] are.
#[derive(Debug, Clone)]
pub struct Error(Box<Inner>);

#[derive(Debug, Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    operation: Option<Cow<'static, str>>,
    object: Option<String>,
    target: Option<TargetName>,
    hint: Option<String>,
    status: Option<Status>,
    fault: Option<FaultSite>,
}

impl Error {
    /// An error of `kind`; `message` says what was wrong.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self(Box::new(Inner {
            kind,
            message: message.into(),
            operation: None,
            object: None,
            target: None,
            hint: None,
            status: None,
            fault: None,
        }))
    }

    /// A `NotFound`.
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::NotFound, message)
    }

    /// An `Exists`.
    pub fn exists(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exists, message)
    }

    /// An `Invalid`.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// A `Stale`.
    pub fn stale(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Stale, message)
    }

    /// A `Conflict`.
    pub fn conflict(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Conflict, message)
    }

    /// A `Denied`.
    pub fn denied(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Denied, message)
    }

    /// An `Exhausted`.
    pub fn exhausted(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Exhausted, message)
    }

    /// An `Unavailable`.
    pub fn unavailable(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unavailable, message)
    }

    /// An `Unsupported`.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, message)
    }

    /// A `Corrupt`.
    pub fn corrupt(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Corrupt, message)
    }

    /// A `Fault` of a program.
    pub fn fault_at(site: FaultSite, message: impl Into<String>) -> Self {
        let mut error = Self::new(ErrorKind::Fault, message);
        error.0.fault = Some(site);
        error
    }

    /// The error of a class method that ended with a negative `status`.
    ///
    /// # Panics
    /// If `status` is not negative.
    pub fn from_status(status: Status, message: impl Into<String>) -> Self {
        assert!(status < 0, "status {status} is not a failure");
        let mut error = Self::new(ErrorKind::from_errno(status.saturating_neg()), message);
        error.0.status = Some(status);
        error
    }

    /// Says which operation failed, unless that is known already.
    pub fn during(mut self, operation: impl Into<Cow<'static, str>>) -> Self {
        self.0.operation.get_or_insert_with(|| operation.into());
        self
    }

    /// Says which object it concerned, unless that is known already.
    pub fn on(mut self, object: impl fmt::Display) -> Self {
        if self.0.object.is_none() {
            self.0.object = Some(object.to_string());
        }
        self
    }

    /// Says which target it came from, unless that is known already.
    pub fn at(mut self, target: &TargetName) -> Self {
        self.0.target.get_or_insert_with(|| target.clone());
        self
    }

    /// Says what to do about it.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Sets the status a class method reported with it.
    pub fn with_status(mut self, status: Status) -> Self {
        self.0.status = Some(status);
        self
    }

    /// Adds where in a program it happened.
    pub fn with_fault(mut self, site: FaultSite) -> Self {
        self.0.fault = Some(site);
        self
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// What was wrong, without operation, object and hint.
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Which operation failed.
    pub fn operation(&self) -> Option<&str> {
        self.0.operation.as_deref()
    }

    /// Which object it concerned.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Which target it came from.
    pub fn target(&self) -> Option<&TargetName> {
        self.0.target.as_ref()
    }

    /// What to do about it.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// The negative errno: the class method's own status if one failed, else the kind's.
    pub fn status(&self) -> Status {
        self.0.status.unwrap_or(-self.0.kind.errno())
    }

    /// Whether the status is a class method's own.
    pub fn has_own_status(&self) -> bool {
        self.0.status.is_some()
    }

    /// Where in a program it happened.
    pub fn fault(&self) -> Option<&FaultSite> {
        self.0.fault.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        if let Some(operation) = &inner.operation {
            write!(f, "{operation}: ")?;
        }
        if let Some(object) = &inner.object {
            write!(f, "{object}: ")?;
        }
        if let Some(target) = &inner.target {
            write!(f, "at {target}: ")?;
        }
        write!(f, "{}: {}", inner.kind, inner.message)?;
        if let Some(site) = &inner.fault {
            write!(f, " (program {}", site.program)?;
            // A source that was not stored has none.
            if site.version > 0 {
                write!(f, " version {}", site.version)?;
            }
            if let Some(line) = site.line {
                write!(f, " line {line}")?;
            }
            write!(f, ")")?;
        }
        if let Some(hint) = &inner.hint {
            write!(f, "; {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_except_corrupt_can_be_restored_from_its_errno() {
        for kind in ErrorKind::ALL {
            let back = ErrorKind::from_errno(kind.errno());
            let expected = if kind == ErrorKind::Corrupt { ErrorKind::Fault } else { kind };
            assert_eq!(back, expected, "{kind}");
        }
    }

    #[test]
    fn an_error_prints_operation_object_cause_and_remedy() {
        let error = Error::invalid("epoch 0").during("seal").on("data/a").hint("epochs start at 1");
        assert_eq!(error.to_string(), "seal: data/a: invalid: epoch 0; epochs start at 1");
        let error = error.at(&TargetName::new("storage.1").unwrap());
        assert_eq!(
            error.to_string(),
            "seal: data/a: at storage.1: invalid: epoch 0; epochs start at 1"
        );
    }
}
