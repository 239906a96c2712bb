//! The methods whose answers are too long for an OSD, so that the client runs them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use nacre_object::{ClassName, MethodName};
use nacre_telemetry::Counter;

use crate::recent_set::{RecentSet, VALIDITY};

/// How many methods are remembered by name. Of further methods only their existence is remembered.
const MAX_NAMED: usize = 64;

/// The methods with long answers; an entry is valid for a while.
#[derive(Debug, Default)]
pub struct LongAnswers {
    remembered: RecentSet,
    /// Until when each counts.
    named: Mutex<BTreeMap<(ClassName, MethodName), Duration>>,
    requests: Counter,
}

impl LongAnswers {
    /// Whether one of these methods had a long answer lately. If so, the request is counted.
    pub fn hold<'a>(
        &self,
        mut methods: impl Iterator<Item = (&'a ClassName, &'a MethodName)>,
        now: Duration,
    ) -> bool {
        let holds = methods.any(|method| self.remembered.holds(&method, now));
        self.requests.add(holds.into());
        holds
    }

    /// Remembers the methods of a request.
    pub fn note<'a>(
        &self,
        methods: impl Iterator<Item = (&'a ClassName, &'a MethodName)>,
        now: Duration,
    ) {
        self.requests.add(1);
        let mut named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        named.retain(|_, until| *until > now);
        for method in methods {
            self.remembered.note(&method, now);
            if named.len() < MAX_NAMED {
                named.insert((method.0.clone(), method.1.clone()), now + VALIDITY);
            }
        }
    }

    /// The methods with long answers at present, as `CLASS.METHOD`, at most [`MAX_NAMED`].
    pub fn methods(&self, now: Duration) -> Vec<String> {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner);
        let valid = named.iter().filter(|(_, until)| **until > now);
        valid.map(|((class, method), _)| format!("{class}.{method}")).collect()
    }

    /// How many requests the client ran itself for this reason.
    pub fn requests(&self) -> u64 {
        self.requests.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_with_long_answers_are_listed_for_a_while() {
        let answers = LongAnswers::default();
        let began = Duration::from_secs(100);
        let (class, method) = ("a".parse().unwrap(), "list".parse().unwrap());
        let methods = || std::iter::once((&class, &method));
        assert!(!answers.hold(methods(), began));
        answers.note(methods(), began);
        assert!(answers.hold(methods(), began));
        assert_eq!((answers.methods(began), answers.requests()), (vec!["a.list".to_owned()], 2));
        let later = began + VALIDITY;
        assert!(!answers.hold(methods(), later) && answers.methods(later).is_empty());
    }

    #[test]
    fn the_number_of_remembered_names_is_bounded() {
        let answers = LongAnswers::default();
        let (class, now) = ("a".parse().unwrap(), Duration::ZERO);
        for n in 0..2 * MAX_NAMED {
            let method = format!("m{n}").parse().unwrap();
            answers.note(std::iter::once((&class, &method)), now);
        }
        assert_eq!(answers.methods(now).len(), MAX_NAMED);
    }
}
