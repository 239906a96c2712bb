//! Emits the decoding of requests, so that a method gets the columns of its request.
//!
//! A request is the columns of one row, one after another; `tuple.rs` says how each is encoded.
//! nacre passes the object `input` and the length of the request to a method. If the request
//! consists of numbers and at most one string at the end, nacre decodes it, and passes the numbers
//! and the length of the string. It passes any other request as a string, or only the first bytes
//! of a long one.

use super::encoding::quoted;
use super::method::MethodWriter;
use super::writer::Position;
use crate::limits::{MAX_INTEGER, REQUEST_HEAD_BYTES};
use nacre_calls::{Base, Type};

/// The byte before a number in a request, and the next constant before a string.
const INT_TAG: u8 = b'i';
const TEXT_TAG: u8 = b's';
/// The first number that is not exact.
const NUMBER_END: i64 = MAX_INTEGER + 1;
/// The bytes of a number in a request; the next constant: the bytes before a string.
const NUMBER_BYTES: usize = 9;
const TEXT_HEAD_BYTES: usize = 5;

/// A request whose columns are at fixed offsets: numbers, and perhaps a string after them.
struct FixedRequest {
    numbers: usize,
    ends_in_text: bool,
}

impl FixedRequest {
    fn of(types: &[Type]) -> Option<Self> {
        let is_number = |ty: &Type| ty.base == Base::Int && !ty.may_be_nil;
        let numbers = types.iter().take_while(|ty| is_number(ty)).count();
        let ends_in_text = match &types[numbers..] {
            [] => false,
            [ty] => matches!(ty.base, Base::String | Base::Bytes) && !ty.may_be_nil,
            _ => return None,
        };
        let request = Self { numbers, ends_in_text };
        let is_fixed = request.columns() == types.len() && request.bytes() < REQUEST_HEAD_BYTES;
        is_fixed.then_some(request)
    }

    fn columns(&self) -> usize {
        self.numbers + usize::from(self.ends_in_text)
    }

    /// The length of the request without the string.
    fn bytes(&self) -> usize {
        self.numbers * NUMBER_BYTES + if self.ends_in_text { TEXT_HEAD_BYTES } else { 0 }
    }

    /// The parameters by which a method gets the decoded columns.
    fn parameters(&self) -> Vec<String> {
        let numbers = (1..=self.numbers).map(|at| format!("a{at}"));
        numbers.chain(self.ends_in_text.then(|| Rest::LENGTH.to_owned())).collect()
    }

    /// The types of the columns, as they are registered. The host decodes requests with these
    /// types.
    fn tags(&self) -> String {
        let tags = [INT_TAG].repeat(self.numbers).into_iter();
        tags.chain(self.ends_in_text.then_some(TEXT_TAG)).map(char::from).collect()
    }

    fn format(&self) -> String {
        "Bi8".repeat(self.numbers) + if self.ends_in_text { "BI4" } else { "" }
    }

    /// A piece of Lua with the string's column number for `{}`; `None` without a string.
    fn text(&self, piece: &str) -> Option<String> {
        self.ends_in_text.then(|| piece.replace("{}", &self.columns().to_string()))
    }
}

/// The string at the end of a request. A method can store it directly from the request, without
/// making a Lua string of it.
pub(super) struct Rest {
    /// The column.
    pub name: String,
    /// Its first byte.
    pub from: usize,
    /// Where the request was decoded.
    mark: Position,
}

impl Rest {
    /// How many bytes it has.
    pub const LENGTH: &str = "n";

    /// A Lua expression for the string.
    pub fn cut(&self) -> String {
        format!("sub(input:str(), {})", self.from)
    }
}

impl MethodWriter<'_> {
    /// The parameters that follow the length, and the registered types of the request's columns.
    pub(super) fn taken_apart(&self) -> Option<(Vec<String>, String)> {
        let request = FixedRequest::of(&self.program.collection(self.plan.input).types())?;
        (request.columns() > 0).then(|| (request.parameters(), request.tags()))
    }

    pub(super) fn decode_request(&mut self) {
        let input = self.program.collection(self.plan.input);
        let types = input.types();
        match FixedRequest::of(&types) {
            Some(request) => self.decode_fixed(&request),
            None => self.decode_in_turn(&types),
        }
        let names: Vec<_> = (1..=types.len()).map(|at| format!("a{at}")).collect();
        self.declare_request(names);
    }

    /// Decodes numbers, and perhaps a string at the end, by one call, unless the host did.
    fn decode_fixed(&mut self, request: &FixedRequest) {
        let first = request.parameters().into_iter().next();
        if let Some(first) = &first {
            self.out.open(format!("if not {first} then"));
        }
        self.out.open("if not text then");
        self.out.put("text = input:str()");
        self.out.put("length = #text");
        self.out.close("end");
        let wrong = if request.ends_in_text { "<" } else { "~=" };
        self.refuse_if(&format!("length {wrong} {}", request.bytes()));
        if first.is_none() {
            return;
        }
        let tags: Vec<_> = (1..=request.columns()).map(|at| format!("t{at}")).collect();
        let names: Vec<_> = tags
            .iter()
            .zip(request.parameters())
            .map(|(tag, parameter)| format!("{tag}, {parameter}"))
            .collect();
        self.out.put(format!("local {}", tags.join(", ")));
        self.out.put(format!("{} = unpack(\"<{}\", text)", names.join(", "), request.format()));
        let numbers = (1..=request.numbers).map(|at| {
            format!("t{at} ~= {INT_TAG} or a{at} <= -{NUMBER_END} or a{at} >= {NUMBER_END}")
        });
        let rest = format!("t{{}} ~= {TEXT_TAG} or n ~= length - {}", request.bytes());
        let wrong: Vec<_> = numbers.chain(request.text(&rest)).collect();
        self.refuse_if(&wrong.join(" or "));
        self.out.close("end");
        if let Some(name) = request.text("a{}") {
            let mark = self.out.mark();
            self.rest = Some(Rest { name, from: request.bytes() + 1, mark });
        }
    }

    /// The string at the end of the request, if `column` is that string.
    pub(super) fn rest_called(&self, column: &str) -> Option<&Rest> {
        self.rest.as_ref().filter(|rest| rest.name == column)
    }

    /// If the method uses the string at the end of the request, emits code that makes a Lua string
    /// of it.
    pub(super) fn cut_rest(&mut self) {
        let Some(rest) = self.rest.take() else { return };
        if self.out.mentions(&rest.mark, &rest.name) {
            self.out.insert(&rest.mark, format!("local {} = {}", rest.name, rest.cut()));
        }
    }

    fn decode_in_turn(&mut self, types: &[Type]) {
        self.out.open("if not text or #text < length then");
        self.out.put("text = input:str()");
        self.out.close("end");
        self.out.put("local at = 1");
        for (column, ty) in types.iter().enumerate() {
            let (name, read) = (format!("a{}", column + 1), self.reader(*ty));
            self.out.put(format!("local {name}"));
            self.out.put(format!("{name}, at = {read}"));
        }
        self.refuse_if("at ~= #text + 1");
    }

    /// Ends a request that is no row of the input.
    fn refuse_if(&mut self, wrong: &str) {
        let input = self.program.collection(self.plan.input);
        let columns: Vec<_> =
            input.columns.iter().map(|column| format!(":{}:{}", column.name, column.ty)).collect();
        let message = format!("the request is no row of {}, [{}]", input.name, columns.join(", "));
        let fail = self.runtime.need("fail");
        self.out.open(format!("if {wrong} then"));
        self.out.put(format!("{fail}(-22, {})", quoted(message.as_bytes())));
        self.out.close("end");
    }

    /// The call that reads a column at `at`.
    fn reader(&mut self, ty: Type) -> String {
        let (reader, tag) = match ty.base {
            Base::Bool => (self.runtime.need("take_bool"), ""),
            Base::Int => (self.runtime.need("take"), ", \"i\""),
            Base::String | Base::Bytes => (self.runtime.need("take"), ", \"s\""),
        };
        match ty.may_be_nil {
            true => format!("{}({reader}, text, at{tag})", self.runtime.need("take_nil")),
            false => format!("{reader}(text, at{tag})"),
        }
    }
}
