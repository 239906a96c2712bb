//! A rule: a header, a destination and how the IO is treated on its way.

use std::fmt;

use nacre_object::{Error, Result};

use super::{ApplicationName, Destination, Header, text};

/// The position of a rule in its table: among the rules that match, the smallest id decides.
/// Installed rules count up from 0. Rules that the switch made itself, so that reads follow writes,
/// are below 0 and so come before all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub i64);

impl RuleId {
    /// Before every other.
    pub(crate) const FIRST: Self = Self(i64::MIN);

    /// Whether the switch made the rule itself.
    pub fn is_made(self) -> bool {
        self.0 < 0
    }
}

/// When the endpoint of a rule is made ready (sRoute paper, section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Prepare {
    /// When the rule is installed, as in the paper. So no IO waits for the endpoint.
    #[default]
    Eager,
    /// By the first IO: rules that no IO meets cost nothing.
    FirstIo,
}

/// Which way replies come back (sRoute paper, figure 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Replies {
    /// Through the switch, which can join, count and drain them.
    #[default]
    Through,
    /// Straight to the source. Such an IO is never split, and a drain does not wait for it.
    Direct,
}

/// Whether reads follow the writes of a rule: the delegate `F()` of the sRoute paper, section 3.4.
///
/// When a write is done, the switch inserts a rule before it answers. The rule sends reads of these
/// bytes to the place of the write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Follow {
    /// No.
    #[default]
    No,
    /// Reads at this switch do.
    Here,
    /// Reads at all switches that have the rule follow. These switches agree by a two-phase commit
    /// (section 3.5, figure 4a).
    Everywhere,
}

/// How an IO is treated on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// When the endpoint is made ready.
    pub prepare: Prepare,
    /// Which way replies come back.
    pub replies: Replies,
    /// Whether reads follow writes.
    pub follow: Follow,
    /// Caches on the way pass writes on before they answer.
    pub is_write_through: bool,
    /// Caches on the way keep nothing of it.
    pub is_uncached: bool,
}

impl Options {
    /// Parses the words after a destination.
    ///
    /// # Errors
    /// `Invalid` for a word that is no option, and for options that contradict each other.
    pub fn parse(words: &[&str]) -> Result<Self> {
        let mut options = Self::default();
        for word in words {
            match *word {
                "prepare-first-io" => options.prepare = Prepare::FirstIo,
                "reply-direct" => options.replies = Replies::Direct,
                "follow" => options.follow = Follow::Here,
                "follow-everywhere" => options.follow = Follow::Everywhere,
                "write-through" => options.is_write_through = true,
                "no-cache" => options.is_uncached = true,
                _ => {
                    return Err(Error::invalid(format!("{word:?} is no option of a rule")).hint(
                        "options are: follow, follow-everywhere, write-through, no-cache, reply-direct, \
                         prepare-first-io",
                    ));
                }
            }
        }
        if options.follow != Follow::No && options.replies == Replies::Direct {
            return Err(Error::invalid(
                "reads cannot follow a write whose reply the switch does not see",
            )
            .hint("leave out reply-direct or follow"));
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.follow == Follow::Here, " follow"),
            (self.follow == Follow::Everywhere, " follow-everywhere"),
            (self.is_write_through, " write-through"),
            (self.is_uncached, " no-cache"),
            (self.replies == Replies::Direct, " reply-direct"),
            (self.prepare == Prepare::FirstIo, " prepare-first-io"),
        ];
        words.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))
    }
}

/// A rule of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Which IO it is about.
    pub header: Header,
    /// Where that goes.
    pub destination: Destination,
    /// How it is treated.
    pub options: Options,
    /// Which application wants it.
    pub application: ApplicationName,
}

impl Rule {
    /// Parses the words `SOURCE OPERATIONS OBJECT [RANGE] -> DESTINATION [OPTIONS]`.
    ///
    /// # Errors
    /// `Invalid`; the error says which part is wrong.
    pub fn parse(application: &ApplicationName, words: &[&str]) -> Result<Self> {
        let arrow = words.iter().position(|word| *word == "->").ok_or_else(|| {
            Error::invalid("a rule has no \"->\"")
                .hint("write SOURCE OPERATIONS OBJECT [RANGE] -> DESTINATION")
        })?;
        let header = Header::parse(&words[..arrow])?;
        let (destination, options) = Destination::parse(&words[arrow + 1..])?;
        let (options, application) = (Options::parse(options)?, application.clone());
        if options.replies == Replies::Direct && matches!(destination, Destination::Controller(_)) {
            return Err(Error::invalid("the controller answers the switch, not the source")
                .hint("leave out reply-direct"));
        }
        Ok(Self { header, destination, options, application })
    }

    /// Parses a rule from a line of a file.
    ///
    /// # Errors
    /// As [`Rule::parse`].
    pub fn from_line(application: &ApplicationName, line: &str) -> Result<Self> {
        Self::parse(application, &text::words(line))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}{}", self.header, self.destination, self.options)
    }
}

/// Sorts the rules of one insertion into the order of installation: the longest prefix first. Rules
/// with equally long prefixes keep their order (sRoute paper, section 4).
pub fn longest_prefix_first(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.header.object.specificity()));
    rules
}
