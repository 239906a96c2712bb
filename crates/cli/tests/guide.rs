//! Tests the guide in `docs/`: the commands of the tutorials print the output that the pages show,
//! no link is broken, and every page is in the contents.

mod guide {
    pub mod links;
    pub mod page;
    pub mod shown;
    pub mod tutorial;
}

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use guide::links::{self, headings};
use guide::page::Page;
use guide::tutorial;

/// The tutorials that the tests below follow.
const FOLLOWED: [&str; 7] = ["balancer", "capability", "class", "filetype", "map", "route", "slo"];

/// The repository's folder.
fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Follows the tutorial of this name, step by step.
fn follow(name: &str) {
    assert!(FOLLOWED.contains(&name), "{name} is missing in FOLLOWED");
    tutorial::follow(&Page::read(&repository(), Path::new(&format!("docs/tutorials/{name}.md"))));
}

#[test]
fn the_tutorial_of_balancers_prints_what_it_shows() {
    follow("balancer");
}

#[test]
fn the_tutorial_of_capabilities_prints_what_it_shows() {
    follow("capability");
}

#[test]
fn the_tutorial_of_classes_prints_what_it_shows() {
    follow("class");
}

#[test]
fn the_tutorial_of_file_types_prints_what_it_shows() {
    follow("filetype");
}

#[test]
fn the_tutorial_of_map_programs_prints_what_it_shows() {
    follow("map");
}

#[test]
fn the_tutorial_of_routes_prints_what_it_shows() {
    follow("route");
}

#[test]
fn the_tutorial_of_orders_of_service_prints_what_it_shows() {
    follow("slo");
}

#[test]
fn every_tutorial_is_followed_by_a_test() {
    let names = |page: &Page| page.path.file_stem().unwrap().to_str().unwrap().to_owned();
    let there: BTreeSet<_> =
        links::pages(&repository(), "docs/tutorials").iter().map(names).collect();
    assert_eq!(there, FOLLOWED.map(str::to_owned).into());
}

#[test]
fn every_link_of_a_page_leads_to_a_file_and_a_heading_of_the_repository() {
    let repository = repository();
    let pages = links::pages(&repository, "");
    assert!(pages.len() > 50, "{} pages", pages.len());
    let broken: Vec<_> = pages.iter().flat_map(|page| links::broken(&repository, page)).collect();
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_page_of_the_guide_is_in_its_contents_once() {
    let contents = Page::read(&repository(), Path::new("docs/SUMMARY.md"));
    let mut listed: Vec<_> = links::targets(&contents).collect();
    listed.sort();
    let there: BTreeSet<_> = links::pages(&repository(), "docs")
        .into_iter()
        .filter(|page| page.path != contents.path)
        .map(|page| page.path.strip_prefix("docs").unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, Vec::from_iter(there));
}

#[test]
fn the_anchor_of_a_heading_is_made_of_its_words() {
    let page = Page::parse(
        Path::new("page.md"),
        "# `class/`: methods of *objects*\n\n## More\n```sh\n# no heading\n```\n## More\n",
    );
    let expected = ["class-methods-of-objects", "more", "more-1"].map(str::to_owned);
    assert_eq!(headings(&page), expected.into());
}

#[test]
fn a_link_that_leads_nowhere_is_named_with_its_page() {
    let text = "[a](ARCHITECTURE.md#host) [b](nowhere.md) `[c](code.md)` [d](ARCHITECTURE.md#no)\n\
                ```\n[e](block.md)\n```\n[f](https://example.org/x) [g](#no) [h](../outside.md)\n";
    let page = Page::parse(Path::new("page.md"), text);
    let broken = ["nowhere.md", "ARCHITECTURE.md#no", "#no", "../outside.md"];
    assert_eq!(links::broken(&repository(), &page), broken.map(|link| format!("page.md: {link}")));
}
