//! The editors' grammar knows the words that the compiler knows.

use nacre_brados::{Base, KEYWORDS, MergeOp};

const GRAMMAR: &str = include_str!("../../../editors/brados.tmLanguage.json");

/// The patterns of a kind, as one text.
fn patterns(scope: &str) -> String {
    let grammar: serde_json::Value = serde_json::from_str(GRAMMAR).expect("the grammar is JSON");
    let patterns = grammar["patterns"].as_array().expect("it has patterns").iter();
    let named = patterns
        .filter(|pattern| pattern["name"].as_str().is_some_and(|name| name.starts_with(scope)));
    named.filter_map(|pattern| pattern["match"].as_str()).collect::<Vec<_>>().join("|")
}

/// The words between bars and brackets.
fn words(patterns: &str) -> Vec<&str> {
    patterns
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.len() > 1)
        .collect()
}

#[test]
fn the_grammar_has_every_keyword_and_no_other() {
    let text = ["keyword.control", "storage.type", "constant.language"].map(patterns).join("|");
    let mut known: Vec<_> = words(&text).into_iter().filter(|word| *word != "b").collect();
    let mut keywords = KEYWORDS.to_vec();
    known.sort_unstable();
    keywords.sort_unstable();
    assert_eq!(known, keywords);
}

#[test]
fn the_grammar_has_every_type_method_and_merge() {
    let types = patterns("support.type");
    for base in Base::ALL {
        assert!(words(&types).contains(&base.as_str()), "{}", base.as_str());
    }
    let methods = patterns("support.function");
    for method in [
        "pairs", "combos", "matches", "lefts", "rights", "notin", "group", "argmax", "argmin",
        "include",
    ] {
        assert!(words(&methods).contains(&method), "{method}");
    }
    let merges = patterns("keyword.operator.merge").replace('\\', "");
    let ops = [MergeOp::Now, MergeOp::Insert, MergeOp::Delete, MergeOp::Replace, MergeOp::Send];
    for op in ops {
        assert!(merges.split('|').any(|merge| merge == op.as_str()), "{op}");
    }
}
