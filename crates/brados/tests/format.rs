//! Tests of the formatter: it changes only blanks, and does not change a formatted source at all.

mod support;

use nacre_brados::{compile, format};

const FILES: [&str; 6] = [
    include_str!("behaviour/tables.txt"),
    include_str!("behaviour/rules.txt"),
    include_str!("behaviour/channels.txt"),
    include_str!("diagnostics/joins.txt"),
    include_str!("diagnostics/syntax.txt"),
    include_str!("diagnostics/listings.txt"),
];

fn words(source: &str) -> String {
    source.chars().filter(|c| !c.is_whitespace()).collect()
}

#[test]
fn formatting_changes_blanks_only_and_is_idempotent() {
    let mut count = 0;
    for (name, program, _) in FILES.into_iter().flat_map(support::cases) {
        let Ok(formatted) = format(&program) else { continue };
        count += 1;
        assert_eq!(words(&formatted), words(&program), "{name}");
        assert_eq!(format(&formatted).unwrap(), formatted, "{name}");
        if let (Ok(before), Ok(after)) = (compile(&program), compile(&formatted)) {
            assert_eq!(before.class.lua, after.class.lua, "{name}");
        }
    }
    assert!(count > 20, "only {count} programs were formatted");
}

#[test]
fn an_untidy_program_becomes_tidy() {
    let untidy = "# why
   state   do
table :log ,[ :pos:int]=>[:state:string,:data : bytes ?]


interface   input,:op,
[:type,:pos:int ]=>[:data:bytes?]
interface output, :ret, [ :n ]
   end
bloom  :read  do   # reads

  found<=(op*log) . lefts( pos=>pos )
  ret <=(op * log).pairs(:pos=>:pos) do|o,l|
  [ l.pos+1,-1 ]  unless
  ['a','b'].include?( l.state )and not(o.pos==- 1)
        end
  ret<=op
.notin( log , :pos=>:pos ){ |o| [ o.pos -1 ] }
     end
  layout   log:slots( 4096 ,10),header :attribute# why
 former layout map

";
    let tidy = "# why
state do
  table :log, [:pos:int] => [:state:string, :data:bytes?]

  interface input, :op,
    [:type, :pos:int] => [:data:bytes?]
  interface output, :ret, [:n]
end
bloom :read do  # reads

  found <= (op * log).lefts(pos => pos)
  ret <= (op * log).pairs(:pos => :pos) do |o, l|
    [l.pos + 1, -1] unless
      ['a', 'b'].include?(l.state) and not (o.pos == -1)
  end
  ret <= op
    .notin(log, :pos => :pos){|o| [o.pos - 1]}
end
layout log: slots(4096, 10), header: attribute  # why
former layout map
";
    let formatted =
        format(untidy).unwrap_or_else(|errors| panic!("{}", errors.render("p", untidy)));
    assert_eq!(formatted, tidy);
}

#[test]
fn an_invalid_program_is_not_formatted() {
    assert!(format("state do\n  tabel :t, [:a]\nend\n").is_err());
}
