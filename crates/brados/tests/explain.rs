//! Tests the explanation of a program: strata, access paths, aggregates, the data-flow graph.

use nacre_brados::{compile, data_flow_svg, explain};

const PROGRAM: &str = "state do
  table :epoch, [] => [:epoch:int]
  table :log, [:pos:int] => [:data:bytes]
  table :owner, [:name:string, :pos:int]
  scratch :reach, [:pos:int]
  interface input, :write, [:epoch:int, :pos:int, :data:bytes, :name:string]
  interface output, :ret, [:pos, :max]
end
bloom do
  temp :fresh <= (write * epoch).lefts{|w, e| w.epoch >= e.epoch}
  log <+ fresh.notin(log, :pos => :pos){|f| [f.pos, f.data]}
  owner <+ fresh{|f| [f.name, f.pos]}
  reach <= (fresh * owner).rights(:name => :name){|o| [o.pos]}
  reach <= (reach * log).lefts(:pos => :pos){|r| [r.pos + 1] if r.pos < 9}
  temp :last <= log.group([], max(:pos))
  ret <= (reach * last).pairs{|r, l| [r.pos, l.max_pos]}
end
";

#[test]
fn an_explanation_names_strata_access_paths_aggregates_and_layout() {
    let compiled =
        compile(PROGRAM).unwrap_or_else(|errors| panic!("{}", errors.render("p", PROGRAM)));
    let told = explain(&compiled, PROGRAM).to_string();
    let expected = "\
layout: map (the program names no other)
  table epoch: its one row in the header, read with every request
  table log: a map entry a row, keys `log.…` in the order of its key
  table owner: a map entry a row, keys `owner.…` in the order of its key
  aggregate last (log##max(pos), line 15): the last key of the table
";
    assert!(told.starts_with(expected), "{told}");
    for part in [
        " reach (recursive)\n",
        "method write (reads and writes):\n",
        "  line 10: fresh <= …\n    write: the request\n    epoch: the header\n",
        "  line 11: log <+ …\n    fresh: one row in memory\n    no row of log: point lookup by pos",
        "  line 13: reach <= …\n",
        "    owner: range by name",
        "    reach: rows the last round added\n    log: point lookup by pos",
        "    last: the end of its table\n",
    ] {
        assert!(told.contains(part), "{part}\n{told}");
    }
}

#[test]
fn an_explanation_says_where_another_layout_keeps_rows() {
    let source =
        format!("{PROGRAM}layout log: slots(512, 100), header: stream\nformer layout map\n");
    let told = explain(&compile(&source).unwrap(), &source).to_string();
    let expected = "\
layout: log: slots(512, 100), header: stream (as the program says; objects in map are migrated)
  table epoch: its one row in the header, read with every request
  table log: 100 slots of 512 bytes in the byte stream from byte 57 on, one for each pos from about the first on; wider rows and those of other keys in the map
  table owner: a map entry a row, keys `owner.…` in the order of its key
  header: the first 57 bytes of the byte stream
";
    assert!(told.starts_with(expected), "{told}");
}

#[test]
fn the_graph_has_a_box_for_each_collection_and_a_line_for_each_dependency() {
    let compiled = compile(PROGRAM).unwrap();
    let svg = data_flow_svg(&compiled.analysis);
    let collections = &compiled.analysis.program.collections;
    assert_eq!(svg.matches("<rect").count(), collections.len());
    for collection in collections {
        assert!(svg.contains(&format!(
            "<title>{} {}</title>",
            collection.kind.as_str(),
            collection.name
        )));
    }
    for dashes in ["7 4", "2 4"] {
        assert!(svg.contains(&format!("stroke-dasharray=\"{dashes}\"")), "{dashes}");
    }
    assert_eq!(svg.matches("<g>").count(), svg.matches("</g>").count());
    assert!(svg.ends_with("</svg>\n"));
}

const PATHS: &str = "state do
  table :link, [:from:int, :to:int]
  scratch :path, [:from, :to]
  interface input, :add, [:from:int, :to:int]
  interface input, :ask, [:to:int]
  interface output, :ret, [:from:int]
end
bloom do
  link <+ add
  path <= link
  path <= (link * path).pairs(:to => :from){|l, p| [l.from, p.to]}
  ret <= (ask * path).rights(:to => :to){|p| [p.from]}
end
";

#[test]
fn a_recursion_reads_a_table_once_and_other_methods_do_not_read_it() {
    let told = explain(&compile(PATHS).unwrap(), PATHS).to_string();
    let joined = "path: rows the last round added\n    link: every stored row, read once; index in memory by to\n";
    assert!(told.contains(joined), "{told}");
    let (_, add) = told.split_once("method add").unwrap();
    let (add, _) = add.split_once("method ask").unwrap();
    assert!(!add.contains("path"), "{add}");
}
