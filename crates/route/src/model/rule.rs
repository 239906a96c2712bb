//! `Rule`: a header that says which IO it matches, a destination, and options.

use std::fmt;

use nacre_object::{Error, Result};

use super::{ApplicationName, Destination, Header, text};

/// The position of a rule in its table. Of the rules that match, the one with the smallest id
/// decides. Installed rules are numbered from 0 on. The switch makes its own rules so that reads
/// follow writes. These have negative ids, so they come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RuleId(pub i64);

impl RuleId {
    /// Less than every other id.
    pub(crate) const FIRST: Self = Self(i64::MIN);

    /// Whether the switch made the rule itself.
    pub fn is_made(self) -> bool {
        self.0 < 0
    }
}

/// When a node prepares the endpoint of a rule (sRoute paper, section 3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Prepare {
    /// When the rule is installed, as in the paper, so that no IO waits for it.
    #[default]
    Eager,
    /// When the first IO arrives, so that an unused rule costs nothing.
    FirstIo,
}

/// The path of replies (sRoute paper, figure 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Replies {
    /// Through the switch, which can join, count and drain them.
    #[default]
    Through,
    /// Replies to the IO bypass the switch and go straight to the source. So the switch never
    /// splits the IO, and a drain does not wait for it.
    Direct,
}

/// Whether reads follow the writes of a rule (the delegate `F()` of the sRoute paper, section 3.4).
///
/// If they do, the switch makes a rule of its own when a write is done, before it answers the
/// write. That rule sends reads of these bytes to where they were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Follow {
    /// No.
    #[default]
    No,
    /// Reads at the switch of the rule follow.
    Here,
    /// Yes: reads follow the writes at every switch that has the rule. The switches agree on where
    /// the bytes are by two-phase commit (sRoute paper, section 3.5, figure 4a).
    Everywhere,
}

/// How a matching IO is treated on its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Options {
    /// When the endpoint is prepared.
    pub prepare: Prepare,
    /// The path of replies.
    pub replies: Replies,
    /// Whether reads follow writes.
    pub follow: Follow,
    /// Caches on the path pass writes on before they answer.
    pub is_write_through: bool,
    /// Caches on the path store nothing of this IO.
    pub is_uncached: bool,
    /// Clients may read the routed bytes straight from the node that keeps them.
    pub has_direct_reads: bool,
    /// Bytes that lie at home already move to the destination too.
    pub is_at_rest: bool,
}

impl Options {
    /// Parses the options after a destination.
    ///
    /// # Errors
    /// `Invalid` for an unknown option, and for options that contradict each other.
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
                "direct-reads" => options.has_direct_reads = true,
                "at-rest" => options.is_at_rest = true,
                _ => {
                    return Err(Error::invalid(format!("{word:?} is no option of a rule")).hint(
                        "options are: follow, follow-everywhere, direct-reads, at-rest, write-through, no-cache, \
                         reply-direct, prepare-first-io",
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
        let needs_follow = options.has_direct_reads || options.is_at_rest;
        if needs_follow && options.follow == Follow::No {
            return Err(Error::invalid(
                "direct-reads and at-rest are about bytes that reads follow",
            )
            .hint("write follow before them"));
        }
        Ok(options)
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (self.follow == Follow::Here, " follow"),
            (self.follow == Follow::Everywhere, " follow-everywhere"),
            (self.has_direct_reads, " direct-reads"),
            (self.is_at_rest, " at-rest"),
            (self.is_write_through, " write-through"),
            (self.is_uncached, " no-cache"),
            (self.replies == Replies::Direct, " reply-direct"),
            (self.prepare == Prepare::FirstIo, " prepare-first-io"),
        ];
        words.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, word)| f.write_str(word))
    }
}

/// A rule of a switch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The IO that it matches.
    pub header: Header,
    /// Where it sends the IO.
    pub destination: Destination,
    /// How the IO is treated on its path.
    pub options: Options,
    /// The application that installed it.
    pub application: ApplicationName,
}

impl Rule {
    /// Parses the words `SOURCE OPERATIONS OBJECT [RANGE] -> DESTINATION [OPTIONS]`.
    ///
    /// # Errors
    /// `Invalid`, with the part that is wrong.
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

    /// Whether bytes of its objects may lie elsewhere, even after the rule was removed.
    pub fn moves_bytes(&self) -> bool {
        self.options.follow != Follow::No || self.destination.is_erasure()
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} -> {}{}", self.header, self.destination, self.options)
    }
}

/// Sorts the rules of one insertion into the order in which they decide: the longest prefix first.
/// Rules with equally long prefixes keep their order (sRoute paper, section 4).
pub fn longest_prefix_first(mut rules: Vec<Rule>) -> Vec<Rule> {
    rules.sort_by_key(|rule| std::cmp::Reverse(rule.header.object.specificity()));
    rules
}
