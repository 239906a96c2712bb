//! Lists the names of objects in byte order, although RADOS lists them in the order of their
//! hashes.
//!
//! To make a page, the listing goes over all names of the pool and keeps the smallest of those that
//! match the request. So its memory is bounded by the size of a page, but its time grows with the
//! pool.

use std::collections::BTreeSet;

use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{ListPage, ListRequest, ObjectName};

/// A page in the making.
#[derive(Debug)]
pub struct Page {
    request: ListRequest,
    limit: usize,
    /// The smallest names found so far. It holds up to one name more than the page, to know whether
    /// a further page exists. It is a set because RADOS may list an object twice if the object
    /// moves meanwhile.
    least: BTreeSet<ObjectName>,
}

impl Page {
    /// An empty page.
    pub fn new(request: ListRequest) -> Self {
        let limit = request.limit.min(MAX_LIST_ENTRIES);
        Self { request, limit, least: BTreeSet::new() }
    }

    /// Takes a name into account. Names that are not ours are passed over.
    pub fn see(&mut self, name: &[u8]) {
        let Ok(text) = std::str::from_utf8(name) else { return };
        let behind = |after: &ObjectName| text > after.as_str();
        if !text.starts_with(&self.request.prefix) || !self.request.after.iter().all(behind) {
            return;
        }
        let full = self.least.len() > self.limit;
        if full && self.least.last().is_some_and(|greatest| text >= greatest.as_str()) {
            return;
        }
        let Ok(name) = ObjectName::new(text) else { return };
        self.least.insert(name);
        if self.least.len() > self.limit + 1 {
            self.least.pop_last();
        }
    }

    /// The page, once every name was seen.
    pub fn finish(self) -> ListPage {
        let mut names: Vec<_> = self.least.into_iter().collect();
        let more = names.len() > self.limit;
        names.truncate(self.limit);
        ListPage { names, more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(after: Option<&str>, prefix: &str, limit: usize) -> (Vec<String>, bool) {
        let after = after.map(|name| name.parse().unwrap());
        let pool = "p".parse().unwrap();
        let mut page = Page::new(ListRequest { pool, after, prefix: prefix.to_owned(), limit });
        for name in ["d", "a", "b", "ab", "c", "a", "ä"] {
            page.see(name.as_bytes());
        }
        page.see(b"\xff\xff");
        let page = page.finish();
        (page.names.iter().map(ToString::to_string).collect(), page.more)
    }

    #[test]
    fn a_page_holds_the_smallest_names_in_order() {
        let of = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert_eq!(page(None, "", 9), (of(&["a", "ab", "b", "c", "d", "ä"]), false));
        assert_eq!(page(None, "", 2), (of(&["a", "ab"]), true));
        assert_eq!(page(Some("ab"), "", 2), (of(&["b", "c"]), true));
        assert_eq!(page(None, "a", 2), (of(&["a", "ab"]), false));
        assert_eq!(page(None, "", 0), (of(&[]), true));
        assert_eq!(page(Some("ä"), "", 0), (of(&[]), false));
    }
}
