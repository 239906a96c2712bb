//! Checks that the links of pages lead to existing files and headings of the repository. Links to
//! other sites are not checked.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::page::Page;

/// All Markdown pages in a folder of the repository and in its subfolders, except in build folders
/// and hidden folders.
pub fn pages(repository: &Path, folder: &str) -> Vec<Page> {
    let mut pages = Vec::new();
    let mut folders = vec![PathBuf::from(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(repository.join(&folder)).unwrap().map(Result::unwrap) {
            let name = entry.file_name().into_string().unwrap();
            let path = folder.join(&name);
            if entry.file_type().unwrap().is_dir() {
                let has_pages = name != "target" && !name.starts_with('.');
                folders.extend(has_pages.then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(Page::read(repository, &path));
            }
        }
    }
    pages.sort_by(|one, other| one.path.cmp(&other.path));
    pages
}

/// The targets of a page's links, as they are written. Links inside code are ignored.
pub fn targets(page: &Page) -> impl Iterator<Item = String> {
    let prose = page.prose.join("\n");
    // Every other part stands between backticks.
    let text: Vec<_> = prose.split('`').step_by(2).collect();
    let text = text.join("`");
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect::<Vec<_>>().into_iter()
}

/// The broken links of a page, each with the page in front.
pub fn broken(repository: &Path, page: &Page) -> Vec<String> {
    let is_broken = |target: &String| !target.contains("://") && !leads(repository, page, target);
    let broken = targets(page).filter(is_broken);
    broken.map(|target| format!("{}: {target}", page.path.display())).collect()
}

/// Whether a link leads to an existing file of the repository, and to an existing heading if it
/// names one.
fn leads(repository: &Path, page: &Page, target: &str) -> bool {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    let path = match file {
        "" => Some(page.path.clone()),
        file => inside(&page.path.parent().unwrap().join(file)),
    };
    let Some(path) = path.filter(|path| repository.join(path).exists()) else { return false };
    let Some(anchor) = anchor else { return true };
    if file.is_empty() {
        return headings(page).contains(anchor);
    }
    path.extension().is_some_and(|extension| extension == "md")
        && headings(&Page::read(repository, &path)).contains(anchor)
}

/// A path without `..`; nothing if it leaves the repository.
fn inside(path: &Path) -> Option<PathBuf> {
    let mut inside = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => inside.pop().then_some(())?,
            _ => {}
        }
    }
    Some(inside)
}

/// The anchors of a page's headings, in the form in which GitHub and mdBook make them from the
/// words of a heading.
pub fn headings(page: &Page) -> BTreeSet<String> {
    let mut seen = BTreeMap::new();
    let lines = page.prose.iter().filter(|line| line.starts_with('#'));
    let named = lines.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let name: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let before = seen.entry(name.clone()).or_insert(0);
        *before += 1;
        if *before == 1 { name } else { format!("{name}-{}", *before - 1) }
    });
    named.collect()
}
