//! Random programs that compile more often than not, and requests for them.

use std::fmt::Write;

use nacre_brados::Value;
use nacre_clock::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ty {
    Int,
    Text,
    Bool,
}

#[derive(Debug, Clone)]
struct Column {
    name: String,
    ty: Ty,
    may_be_nil: bool,
}

#[derive(Debug, Clone)]
struct Relation {
    name: String,
    key_width: usize,
    columns: Vec<Column>,
}

/// A random program, and the columns of each input.
pub struct Generated {
    pub source: String,
    inputs: Vec<Relation>,
}

impl Generated {
    pub fn new(random: &mut Random) -> Self {
        let mut generator = Generator {
            random,
            rules: String::new(),
            state: String::new(),
            readable: vec![],
            temps: 0,
        };
        generator.program()
    }

    /// A method and its row.
    pub fn request(&self, random: &mut Random) -> (String, Vec<Value>) {
        let input = &self.inputs[random.below(self.inputs.len() as u64) as usize];
        let row = input.columns.iter().map(|column| value(random, column)).collect();
        (input.name.clone(), row)
    }
}

const TEXTS: [&str; 4] = ["", "a", "b", "a\0b"];

/// Few values, so that rows meet.
fn value(random: &mut Random, column: &Column) -> Value {
    if column.may_be_nil && random.one_in(4) {
        return Value::Nil;
    }
    match column.ty {
        Ty::Int => Value::Int(random.below(5) as i64 - 1),
        Ty::Text => Value::text(TEXTS[random.below(TEXTS.len() as u64) as usize]),
        Ty::Bool => Value::Bool(random.one_in(2)),
    }
}

struct Generator<'a> {
    random: &'a mut Random,
    rules: String,
    /// Declarations of collections that could also be a `temp`.
    state: String,
    readable: Vec<Relation>,
    temps: usize,
}

impl Generator<'_> {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn program(&mut self) -> Generated {
        let mut state = String::from("state do\n");
        let inputs: Vec<_> = (0..2).map(|at| self.relation("in", at, 3, true)).collect();
        let tables: Vec<_> =
            (0..2 + self.below(2)).map(|at| self.relation("t", at, 2, false)).collect();
        let scratches: Vec<_> = (0..2).map(|at| self.relation("s", at, 2, true)).collect();
        let outputs: Vec<_> = (0..2).map(|at| self.relation("out", at, 3, true)).collect();
        let mut channel = self.relation("c", 0, 2, true);
        channel.key_width = channel.columns.len();
        for (kind, relations) in [
            ("interface input,", &inputs),
            ("table", &tables),
            ("scratch", &scratches),
            ("interface output,", &outputs),
            ("channel", &vec![channel.clone()]),
        ] {
            relations.iter().for_each(|relation| declare(&mut state, kind, relation));
        }
        self.readable.extend(inputs.iter().chain(&tables).chain(&scratches).cloned());
        let dump =
            Relation { name: "dump".into(), key_width: 1, columns: vec![int_column("unused")] };
        declare(&mut state, "interface input,", &dump);
        for table in &tables {
            let whole = Relation { name: format!("all_{}", table.name), ..table.clone() };
            declare(&mut state, "interface output,", &whole);
            let _ = writeln!(self.rules, "  all_{0} <= (dump * {0}).rights", table.name);
        }
        for (at, table) in tables.iter().enumerate() {
            self.end_of(at, table);
        }
        for _ in 0..3 + self.below(4) {
            self.temp(&tables);
        }
        for head in &tables {
            let ops: &[&str] = if self.random.one_in(4) { &["<="] } else { &["<+", "<-", "<+-"] };
            for _ in 0..1 + self.below(2) {
                let op = ops[self.below(ops.len())];
                self.rule(head, op);
            }
        }
        for head in &scratches {
            for _ in 0..1 + self.below(3) {
                self.rule(head, "<=");
            }
        }
        for head in &outputs {
            for _ in 0..1 + self.below(3) {
                self.rule(head, "<=");
            }
        }
        self.rule(&channel, "<~");
        let source = format!("{state}{}end\nbloom do\n{}end\n", self.state, self.rules);
        let inputs = inputs.into_iter().chain([dump]).collect();
        Generated { source, inputs }
    }

    fn relation(&mut self, prefix: &str, at: usize, most: usize, all_key: bool) -> Relation {
        let width = 1 + self.below(most);
        let columns: Vec<_> = (0..width)
            .map(|column| Column {
                name: format!("{}{column}", ["x", "y"][self.below(2)]),
                ty: [Ty::Int, Ty::Int, Ty::Text, Ty::Bool][self.below(4)],
                may_be_nil: self.random.one_in(5),
            })
            .collect();
        let is_keyed = !all_key || self.random.one_in(6);
        let key_width = if is_keyed { self.below(width + 1) } else { width };
        Relation { name: format!("{prefix}{at}"), key_width, columns }
    }

    fn pick(&mut self) -> Relation {
        let at = self.below(self.readable.len());
        self.readable[at].clone()
    }

    /// A value of a column's type, from the rows at hand if one fits.
    fn value_of(&mut self, wanted: &Column, rows: &[(&str, &Relation)]) -> String {
        let mut fitting = vec![];
        for (row, relation) in rows {
            for column in &relation.columns {
                if column.ty == wanted.ty && (!column.may_be_nil || wanted.may_be_nil) {
                    fitting.push(format!("{row}.{}", column.name));
                }
            }
        }
        if fitting.is_empty() || self.random.one_in(6) {
            return literal(self.random, wanted);
        }
        let at = self.below(fitting.len());
        let picked = fitting.swap_remove(at);
        let is_number = wanted.ty == Ty::Int && !picked.is_empty();
        match is_number && !wanted.may_be_nil && self.random.one_in(8) {
            // Keep the numbers in a small range, because a recursion that counts up would not end.
            true => format!("({picked} * {picked}) % 3"),
            false => picked,
        }
    }

    fn row_of(&mut self, head: &Relation, rows: &[(&str, &Relation)]) -> String {
        let values: Vec<_> =
            head.columns.iter().map(|column| self.value_of(column, rows)).collect();
        format!("[{}]", values.join(", "))
    }

    fn guard(&mut self, rows: &[(&str, &Relation)]) -> String {
        if self.random.one_in(2) {
            return String::new();
        }
        let word = ["if", "unless"][self.below(2)];
        format!(" {word} {}", self.condition(rows))
    }

    fn condition(&mut self, rows: &[(&str, &Relation)]) -> String {
        let (row, relation) = rows[self.below(rows.len())];
        let column = relation.columns[self.below(relation.columns.len())].clone();
        let own = format!("{row}.{}", column.name);
        if self.random.one_in(5) {
            let asked = self.pick();
            let nullable = |column: &Column| Column { may_be_nil: true, ..column.clone() };
            let width = if self.random.one_in(2) { asked.columns.len() } else { asked.key_width };
            let items: Vec<_> = asked.columns[..width]
                .iter()
                .map(|column| self.value_of(&nullable(column), rows))
                .collect();
            if width > 0 {
                return format!("{}.include?([{}])", asked.name, items.join(", "));
            }
        }
        let other = self.value_of(&Column { may_be_nil: true, ..column.clone() }, rows);
        match (column.ty, self.below(4)) {
            (Ty::Bool, _) | (_, 0) => format!("{own} == {other}"),
            (_, 1) => format!("{own} != {other}"),
            (_, 2) => format!("[{other}, {}].include?({own})", literal(self.random, &column)),
            _ => format!("{own} {} {other}", ["<", "<=", ">", ">="][self.below(4)]),
        }
    }

    /// Columns of the same type on both sides.
    fn pair(&mut self, left: &Relation, right: &Relation) -> Option<String> {
        let mut pairs = vec![];
        for a in &left.columns {
            for b in &right.columns {
                if a.ty == b.ty {
                    pairs.push(format!(":{} => :{}", a.name, b.name));
                }
            }
        }
        if pairs.is_empty() {
            return None;
        }
        let at = self.below(pairs.len());
        let mut chosen = pairs.swap_remove(at);
        if !pairs.is_empty() && self.random.one_in(3) {
            let at = self.below(pairs.len());
            chosen = format!("{chosen}, {}", pairs[at]);
        }
        Some(chosen)
    }

    fn rule(&mut self, head: &Relation, op: &str) {
        let (a, b) = (self.pick(), self.pick());
        let pair = self.pair(&a, &b);
        let name = &head.name;
        let text = match (self.below(7), pair) {
            (0..3, Some(pair)) => {
                let rows = [("x", &a), ("y", &b)];
                let (row, guard) = (self.row_of(head, &rows), self.guard(&rows));
                format!(
                    "{name} {op} ({} * {}).pairs({pair}){{|x, y| {row}{guard}}}",
                    a.name, b.name
                )
            }
            (3, Some(pair)) => {
                let row = self.row_of(head, &[("x", &a)]);
                format!("{name} {op} {}.notin({}, {pair}){{|x| {row}}}", a.name, b.name)
            }
            (4, _) => {
                let c = self.pick();
                let rows = [("x", &a), ("y", &b), ("z", &c)];
                let (row, conditions) =
                    (self.row_of(head, &rows), [self.condition(&rows), self.condition(&rows)]);
                let products = format!("({} * {} * {})", a.name, b.name, c.name);
                format!(
                    "{name} {op} {products}.combos{{|x, y, z| {row} if {}}}",
                    conditions.join(" and ")
                )
            }
            (5, _) if head.columns.iter().all(|column| !column.may_be_nil) && op != "<~" => {
                let row: Vec<_> =
                    head.columns.iter().map(|column| literal(self.random, column)).collect();
                format!("{name} {op} [[{}]]", row.join(", "))
            }
            _ => {
                let rows = [("x", &a)];
                let (row, guard) = (self.row_of(head, &rows), self.guard(&rows));
                format!("{name} {op} {}{{|x| {row}{guard}}}", a.name)
            }
        };
        let _ = writeln!(self.rules, "  {text}");
    }

    /// Adds an output with the greatest or least key of a table whose key is a number. Draws no
    /// random number, so that the rest of the program for a seed stays the same as without this
    /// output.
    fn end_of(&mut self, at: usize, table: &Relation) {
        let key = &table.columns[0];
        if table.key_width != 1 || key.ty != Ty::Int || key.may_be_nil {
            return;
        }
        let function = ["max", "min"][at % 2];
        let default = if table.columns.len() == 1 { ", -1" } else { "" };
        let (name, of) = (&table.name, &key.name);
        let _ = writeln!(self.state, "  interface output, :end_{name}, [:number:int]");
        let _ = writeln!(
            self.rules,
            "  temp :end_of_{name} <= {name}.group([], {function}(:{of}{default}))\n  \
             end_{name} <= (dump * end_of_{name}).rights"
        );
    }

    fn temp(&mut self, tables: &[Relation]) {
        let source = match self.random.one_in(2) {
            true => tables[self.below(tables.len())].clone(),
            false => self.pick(),
        };
        let name = format!("temp{}", self.temps);
        self.temps += 1;
        let keys: Vec<Column> =
            source.columns.iter().filter(|_| self.random.one_in(3)).cloned().collect();
        let listed: Vec<_> = keys.iter().map(|key| format!(":{}", key.name)).collect();
        let listed = listed.join(", ");
        let of = source.columns[self.below(source.columns.len())].clone();
        let mut columns = keys.clone();
        let text = match self.below(5) {
            0 if !of.may_be_nil && of.ty != Ty::Bool => {
                columns.clone_from(&source.columns);
                let method = ["argmax", "argmin"][self.below(2)];
                format!("{}.{method}([{listed}], :{})", source.name, of.name)
            }
            1 => {
                let other = self.pick();
                let Some(pair) = self.pair(&source, &other) else { return };
                columns.clone_from(&source.columns);
                format!("({} * {}).lefts({pair})", source.name, other.name)
            }
            2 => {
                let other = self.pick();
                let condition = self.condition(&[("x", &source), ("y", &other)]);
                columns.clone_from(&source.columns);
                format!("{}.notin({}){{|x, y| {condition}}}", source.name, other.name)
            }
            _ if of.ty == Ty::Int && !of.may_be_nil => {
                let mut aggregates = vec!["count".to_owned()];
                columns.push(int_column("count"));
                for function in ["max", "min", "sum", "avg"] {
                    if self.random.one_in(2) {
                        aggregates.push(format!("{function}(:{})", of.name));
                        columns.push(int_column(&format!("{function}_{}", of.name)));
                    }
                }
                format!("{}.group([{listed}], {})", source.name, aggregates.join(", "))
            }
            _ if of.ty == Ty::Text && !of.may_be_nil => {
                columns.push(Column { name: format!("max_{}", of.name), ..of.clone() });
                let default = if keys.is_empty() && self.random.one_in(2) { ", ''" } else { "" };
                format!("{}.group([{listed}], max(:{}{default}))", source.name, of.name)
            }
            _ => {
                columns.push(int_column("count"));
                format!("{}.group([{listed}], count)", source.name)
            }
        };
        let mut relation = Relation { name, key_width: columns.len(), columns };
        if self.random.one_in(3) {
            self.declare_scratch(&mut relation, keys.len());
            let _ = writeln!(self.rules, "  {} <= {text}", relation.name);
        } else {
            let _ = writeln!(self.rules, "  temp :{} <= {text}", relation.name);
        }
        self.readable.push(relation);
    }

    /// Declares a `scratch` in place of a `temp`. The scratch may have another key than the `temp`,
    /// and more columns that may be nil.
    fn declare_scratch(&mut self, relation: &mut Relation, key_width: usize) {
        let width = relation.columns.len();
        relation.key_width = [key_width, width, self.below(width + 1)][self.below(3)];
        for column in &mut relation.columns {
            column.may_be_nil |= self.random.one_in(8);
        }
        declare(&mut self.state, "scratch", relation);
    }
}

fn int_column(name: &str) -> Column {
    Column { name: name.to_owned(), ty: Ty::Int, may_be_nil: false }
}

fn literal(random: &mut Random, column: &Column) -> String {
    match value(random, column) {
        Value::Bytes(text) => format!("\"{}\"", text.escape_ascii()),
        other => other.to_string(),
    }
}

fn declare(state: &mut String, kind: &str, relation: &Relation) {
    let column = |column: &Column| {
        let ty = match column.ty {
            Ty::Int => "int",
            Ty::Text => "string",
            Ty::Bool => "bool",
        };
        format!(":{}:{ty}{}", column.name, if column.may_be_nil { "?" } else { "" })
    };
    let columns: Vec<_> = relation.columns.iter().map(column).collect();
    let (keys, values) = columns.split_at(relation.key_width);
    let values = match values.is_empty() {
        true => String::new(),
        false => format!(" => [{}]", values.join(", ")),
    };
    let _ = writeln!(state, "  {kind} :{}, [{}]{values}", relation.name, keys.join(", "));
}
