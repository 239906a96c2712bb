//! Tests classes whose chunk runs once for many calls, as the chunks of Brados classes do. The
//! methods of these tests do what the Brados compiler would never emit.

use std::collections::BTreeSet;

use bytes::Bytes;
use nacre_brados::LineMap;
use nacre_clock::SystemClock;
use nacre_conformance::{MemoryObject, peak_memory_kib};
use nacre_object::{EntityName, MethodName};
use nacre_program::Digest;
use nacre_script::Script;

use super::*;
use crate::check::methods_of;
use nacre_calls::{decode_answers, encode_batch};

const WRITES: [&str; 16] = [
    "objclass.map_set('k', 'x')",
    "objclass.map_set('k', data)",
    "objclass.map_set_parts('k', 'x', 'y')",
    "objclass.map_set_rest('k', 'x', 1)",
    "objclass.map_set_rest('k', data, 1)",
    "objclass.map_set_int('k', 1, 'x')",
    "objclass.map_set_int('k', 1, data)",
    "objclass.map_set_int_rest('k', 1, 'x', 1)",
    "objclass.map_set_int_rest('k', 1, data, 1)",
    "objclass.map_set_val('k', data)",
    "objclass.map_remove_key('k')",
    "objclass.write_full(data)",
    "objclass.append('x')",
    "objclass.setxattr('a', data)",
    "objclass.remove()",
    "coroutine.wrap(objclass.map_set)('k', 'x')",
];

/// How much memory the test process may use. A reply of ninety pieces of 8 MiB would take 720 MiB
/// if it were copied before its length is checked.
const MAX_PEAK_KIB: u64 = 512 * 1024;

/// A class whose chunk runs once for many calls, as the chunks of Brados classes do. Its methods do
/// what the Brados compiler would never emit.
fn kept_class() -> ClassRuntime {
    let writes: String = WRITES.iter().map(|write| format!("function() {write} end, ")).collect();
    let source = format!(
        "local data = bufferlist.new() data:append('x') local writes = {{ {writes} }}
         function look(input, output) writes[tonumber(input:str())]() return 0 end
         objclass.register(look, 'readonly')
         function change(input, output) writes[tonumber(input:str())]() return 0 end
         objclass.register(change)
         function try(input, output)
           output:append(tostring((select(2, pcall(writes[tonumber(input:str())])))))
           return 0
         end
         objclass.register(try, 'readonly')"
    );
    kept_class_of(&source, Budget::default())
}

fn kept_class_of(source: &str, budget: Budget) -> ClassRuntime {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let runtime = ClassRuntime::new(budget, clock);
    let script = Script::compile("kept", 1, source.as_bytes()).unwrap().kept();
    let program = Program {
        methods: methods_of(&script, &runtime.clock).unwrap(),
        source: source.into(),
        digest: Digest::of(b""),
        lines: Some(LineMap::default()),
        counting: None,
        senders: BTreeSet::new(),
        brief: BTreeSet::new(),
        script,
    };
    let name = ClassName::new("kept").unwrap();
    runtime.classes.write().unwrap().insert(name, Class::Program(Arc::new(program)));
    runtime
}

/// A class whose method `look` does this, and whose method `change` does it after a change.
fn looking(body: &str) -> String {
    format!(
        "function look(input, output) {body} return 0 end
         objclass.register(look, 'readonly')
         function change(input, output) objclass.map_set('k', 'v') return look(input, output) end
         objclass.register(change)"
    )
}

fn call_kept(
    runtime: &ClassRuntime,
    object: &mut MemoryObject,
    method: &str,
    input: Bytes,
) -> Result<CallReply> {
    let context = CallContext { source: EntityName::new("test").unwrap(), now_micros: 0 };
    let (class, method) = (ClassName::new("kept").unwrap(), MethodName::new(method).unwrap());
    let call = ClassCall { class, method, version: None, input };
    runtime.call(&call, object, &context)
}

#[test]
fn a_batch_ends_before_its_answers_exceed_the_output_bound() {
    let source = looking("output:append(string.rep('x', tonumber(input:str())))");
    let runtime = kept_class_of(&source, Budget { output_bytes: 1000, ..Budget::default() });
    let answered = |method: &str, sizes: &[usize]| {
        let requests: Vec<_> = sizes.iter().map(|size| size.to_string().into_bytes()).collect();
        let input = encode_batch(u32::MAX, &requests);
        let reply = call_kept(&runtime, &mut MemoryObject::default(), method, input);
        let answers = decode_answers(reply.map_err(|error| error.kind())?.output, sizes.len());
        Ok(answers.unwrap().iter().map(|answer| answer.output.len()).collect::<Vec<_>>())
    };
    for method in ["look.batch", "change.batch"] {
        assert_eq!(answered(method, &[100, 200, 300]), Ok(vec![100, 200, 300]));
        assert_eq!(answered(method, &[100, 388, 2]), Ok(vec![100, 388]), "half is full");
        assert_eq!(answered(method, &[976, 1]), Ok(vec![976]));
        assert_eq!(answered(method, &[990]), Err(ErrorKind::Exhausted));
    }
    // What is asked again comes to the same if it changed nothing.
    assert_eq!(answered("look.batch", &[100, 900, 1]), Ok(vec![100]));
    assert_eq!(answered("change.batch", &[100, 900, 1]), Err(ErrorKind::Exhausted));
}

#[test]
fn a_reply_in_pieces_is_bounded_before_it_is_copied() {
    let source = looking(
        "local text = string.rep('x', 2^23)
         for piece = 1, tonumber(input:str()) do output:append(text) end",
    );
    let runtime = kept_class_of(&source, Budget::default());
    let answered = |method: &str, input: Bytes| {
        let reply = call_kept(&runtime, &mut MemoryObject::default(), method, input);
        reply.map(|reply| reply.output.len()).map_err(|error| error.kind())
    };
    let batch = |counts: &[&str]| {
        let requests: Vec<_> = counts.iter().map(|count| count.as_bytes().to_vec()).collect();
        encode_batch(u32::MAX, &requests)
    };
    assert_eq!(answered("look", "1".into()), Ok(1 << 23));
    for method in ["look", "change"] {
        assert_eq!(answered(method, "90".into()), Err(ErrorKind::Exhausted));
        let method = format!("{method}.batch");
        assert_eq!(answered(&method, batch(&["90"])), Err(ErrorKind::Exhausted));
    }
    assert_eq!(answered("look.batch", batch(&["0", "90"])), Ok(12), "it is left");
    assert_eq!(answered("change.batch", batch(&["0", "90"])), Err(ErrorKind::Exhausted));
    assert!(peak_memory_kib() < MAX_PEAK_KIB, "{} KiB at the peak", peak_memory_kib());
}

#[test]
fn a_method_gets_the_numbers_of_a_request_with_its_registered_columns() {
    let runtime = kept_class_of(
        "function show(input, output, batch, ...)
           local shown = {}
           for at = 1, select('#', ...) do shown[at] = tostring((select(at, ...))) end
           output:append(table.concat(shown, ' ') .. '; ' .. #input:str() .. '; ' .. #input)
           return 0
         end
         objclass.register(show, 'readonly', 'is')
         function pieces(input, output, batch, text, length, number)
           output:append(tostring(number)) output:append(', of ' .. length)
           return 0
         end
         objclass.register(pieces, nil, 'i')",
        Budget::default(),
    );
    let answers = |method: &str, requests: &[Vec<u8>]| {
        let mut object = MemoryObject::default();
        let single = requests.iter().map(|request| {
            call_kept(&runtime, &mut object, method, request.clone().into()).unwrap().output
        });
        let single: Vec<_> = single.collect();
        let batch = (format!("{method}.batch"), encode_batch(u32::MAX, requests));
        let output = call_kept(&runtime, &mut object, &batch.0, batch.1).unwrap().output;
        let answers = decode_answers(output, requests.len()).unwrap();
        assert_eq!(answers.into_iter().map(|answer| answer.output).collect::<Vec<_>>(), single);
        single.iter().map(|output| String::from_utf8_lossy(output).into_owned()).collect::<Vec<_>>()
    };
    let request = |number: i64, text: &str| {
        let length = (text.len() as u32).to_le_bytes();
        [b"i", &number.to_le_bytes()[..], b"s", &length, text.as_bytes()].concat()
    };
    let shown = |numbers: &str, bytes: usize| format!("{numbers}; {bytes}; {bytes}");
    let nils = " nil".repeat(6);
    assert_eq!(
        answers("show", &[request(-7, "abc"), b"no row".to_vec(), request(1, &"x".repeat(1000))]),
        [
            shown(&format!("nil 17 -7 3{nils}"), 17),
            shown(&format!("no row 6 nil nil{nils}"), 6),
            shown(&format!("nil 1014 1 1000{nils}"), 1014),
        ]
    );
    let numbers = [5_i64, 6].map(|number| [b"i", &number.to_le_bytes()[..]].concat());
    assert_eq!(answers("pieces", &numbers), ["5, of 9", "6, of 9"]);
}

#[test]
fn a_kept_method_that_is_registered_read_only_is_denied_every_write() {
    let runtime = kept_class();
    let call = |object: &mut MemoryObject, method: &str, input: Bytes| {
        call_kept(&runtime, object, method, input)
    };
    for (at, write) in WRITES.iter().enumerate() {
        let number = (at + 1).to_string();
        let mut object = MemoryObject::default();
        let is_denied = |object: &mut MemoryObject| {
            object.commit(0);
            let denied = call(object, "look", number.clone().into()).unwrap_err();
            assert_eq!((denied.kind(), denied.status()), (ErrorKind::Denied, -1), "{write}");
            let tried = call(object, "try", number.clone().into()).unwrap();
            assert_eq!(&tried.output[..], b"-1", "{write}");
            for method in ["look.batch", "try.batch"] {
                let requests = [number.clone().into(), number.clone().into_bytes()];
                let reply = call(object, method, encode_batch(u32::MAX, &requests)).unwrap();
                for answer in decode_answers(reply.output, 2).unwrap() {
                    let is_refused = answer.status == -1 || &answer.output[..] == b"-1";
                    assert!(is_refused, "{write}: {answer:?}");
                }
            }
            assert!(!object.is_changed(), "{write}");
        };
        is_denied(&mut object);
        call(&mut object, "change", "1".into()).unwrap();
        call(&mut object, "change", number.clone().into()).unwrap();
        assert!(object.is_changed(), "{write}");
        is_denied(&mut object);
    }
}

#[test]
fn a_batch_of_a_kept_class_whose_chunk_fails_is_refused_as_a_whole() {
    let runtime = kept_class();
    let name = ClassName::new("kept").unwrap();
    let Some(Class::Program(program)) = runtime.find(&name) else { unreachable!() };
    let script = Script::compile("kept", 1, b"error('no class')").unwrap().kept();
    let (method, access) = program.method(&MethodName::new("look").unwrap()).unwrap();
    let batch = Batch::decode(encode_batch(u32::MAX, &[vec![1], vec![2]])).unwrap();
    let context = CallContext { source: EntityName::new("test").unwrap(), now_micros: 0 };
    let invocation = Invocation {
        script: &script,
        lines: None,
        handler: method.as_str(),
        requests: Requests::of(Input::Batch(batch)),
        access,
        terms: runtime.terms(&context),
        context: &context,
        sink: &NoFaultSink,
    };
    let error = invocation.run(&mut MemoryObject::default()).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Fault, "no class"));
}
