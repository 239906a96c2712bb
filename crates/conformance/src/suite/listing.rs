//! Listing a pool, page by page.

use futures::StreamExt;
use nacre_object::limits::MAX_LIST_ENTRIES;
use nacre_object::{Capability, ListPage, ListRequest, ObjectName, Op};

use super::Bench;
use crate::ops::*;

checks![
    needs: &[Capability::List], watches: false,
    names_are_listed_in_byte_order,
    pages_join_without_gap_or_overlap,
    removed_objects_are_not_listed,
    a_pool_is_listed_by_itself,
    a_page_has_its_bound,
];

impl Bench {
    /// Lists the objects of this check. Returns their names without the common beginning.
    async fn list(&self, after: Option<&str>, prefix: &str, limit: usize) -> (Vec<String>, bool) {
        let page = self
            .page(after.map(|after| self.spread_object(after).name().clone()), prefix, limit)
            .await;
        let common = format!("{}/", self.check);
        let strip = |name: &ObjectName| name.as_str().trim_start_matches(&common).to_owned();
        (page.names.iter().map(strip).collect(), page.more)
    }

    async fn page(&self, after: Option<ObjectName>, prefix: &str, limit: usize) -> ListPage {
        let pool = self.subject.pool().clone();
        let prefix = format!("{}/{prefix}", self.check);
        let request = ListRequest { pool, after, prefix, limit };
        self.subject.store().list(request).await.expect("listing must succeed")
    }

    async fn make(&self, names: &[&str]) {
        for name in names {
            self.spread_object(name).does([ensure()]).await;
        }
    }
}

/// The arguments of a listing (`after`, prefix, limit) and its result: the names, and whether there
/// are more.
type ListCase<'a> = (Option<&'a str>, &'a str, usize, &'a [&'a str], bool);

async fn names_are_listed_in_byte_order(bench: Bench) {
    bench.make(&["b", "a", "ab", "a/b", "A", "ä", "a b", "~"]).await;
    let all = ["A", "a", "a b", "a/b", "ab", "b", "~", "ä"];
    assert_eq!(bench.list(None, "", 100).await, (all.map(str::to_owned).to_vec(), false));
    let cases: [ListCase<'_>; 11] = [
        (None, "", 3, &["A", "a", "a b"], true),
        (None, "", 8, &all, false),
        (Some("a/b"), "", 2, &["ab", "b"], true),
        (Some("a/a"), "", 1, &["a/b"], true),
        (Some("ä"), "", 9, &[], false),
        (None, "a", 9, &["a", "a b", "a/b", "ab"], false),
        (Some("a"), "a", 1, &["a b"], true),
        (Some("A"), "a", 1, &["a"], true),
        (Some("a b"), "a", 1, &["a/b"], true),
        (Some("a/b"), "a", 1, &["ab"], false),
        (None, "x", 9, &[], false),
    ];
    for (after, prefix, limit, expected, more) in cases {
        let found = bench.list(after, prefix, limit).await;
        let expected = expected.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(found, (expected, more), "after {after:?}, prefix {prefix:?}, limit {limit}");
    }
    assert_eq!(bench.list(None, "", 0).await, (vec![], true), "only whether there are any");
    assert_eq!(bench.list(None, "x", 0).await, (vec![], false), "only whether there are any");
}

async fn pages_join_without_gap_or_overlap(bench: Bench) {
    let names: Vec<String> = (0..60).map(|i| format!("{:02}", i * 7 % 60)).collect();
    bench.make(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut sorted = names;
    sorted.sort();
    for limit in [1, 7, 20, 60, 1000] {
        let mut found: Vec<String> = Vec::new();
        loop {
            let (page, more) = bench.list(found.last().map(String::as_str), "", limit).await;
            assert!(page.len() <= limit, "a page of {} by {limit}", page.len());
            found.extend(page);
            if !more {
                break;
            }
        }
        assert_eq!(found, sorted, "by {limit}");
    }
}

async fn removed_objects_are_not_listed(bench: Bench) {
    bench.make(&["a", "b", "c"]).await;
    bench.spread_object("b").does([Op::Remove]).await;
    bench.spread_object("d").refuses([create(), create()]).await;
    bench.spread_object("e").does([create(), Op::Remove]).await;
    assert_eq!(bench.list(None, "", 9).await, (vec!["a".to_owned(), "c".to_owned()], false));
    if bench.subject.has(Capability::Snapshots) {
        bench.spread_object("c").does([snapshot_create("s"), Op::Remove]).await;
        assert_eq!(bench.list(None, "", 9).await, (vec!["a".to_owned()], false));
    }
    bench.make(&["b"]).await;
    assert!(bench.list(None, "", 9).await.0.contains(&"b".to_owned()), "it was made again");
}

async fn a_pool_is_listed_by_itself(bench: Bench) {
    bench.make(&["here"]).await;
    let pool = "conformance.empty".parse().expect("a pool's name");
    let request = ListRequest { pool, after: None, prefix: String::new(), limit: 9 };
    let page = bench.subject.store().list(request).await.expect("an empty pool can be listed");
    assert_eq!(page, ListPage::default());
}

async fn a_page_has_its_bound(bench: Bench) {
    /// How many objects are written at the same time: enough that engines which sync in groups are
    /// fast.
    const AT_ONCE: usize = 64;
    let count = MAX_LIST_ENTRIES + 10;
    let objects = (0..count).map(|i| bench.spread_object(format!("{i:05}")));
    let made = objects.map(|object| async move { object.does([create()]).await });
    futures::stream::iter(made).buffer_unordered(AT_ONCE).collect::<Vec<_>>().await;

    let first = bench.page(None, "", usize::MAX).await;
    assert_eq!((first.names.len(), first.more), (MAX_LIST_ENTRIES, true));
    let rest = bench.page(first.names.last().cloned(), "", usize::MAX).await;
    assert_eq!((rest.names.len(), rest.more), (10, false));
}
