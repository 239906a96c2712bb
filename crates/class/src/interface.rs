//! What classes define and find, as data.

use nacre_program::{Budget, Constants, FunctionSpec, Interface, Item};

use crate::errno;

/// The interface of classes.
pub const CLASS_INTERFACE: Interface = Interface {
    purpose: "adds methods to objects; a method runs next to its object, as one transaction",
    languages: &["Luau", "Brados"],
    functions: &[FunctionSpec {
        usage: "METHOD(input, output)",
        what: "a method: any global function that the program passes to `objclass.register`; it returns a status",
        is_required: false,
        arguments: &[
            Item::new("input", "the input of the call, a buffer list"),
            Item::new("output", "an empty buffer list, to which the method appends its output"),
        ],
    }],
    environment: ENVIRONMENT,
    constants: &[Constants { table: "objclass", values: &errno::CONSTANTS }],
    budget: Budget::DEFAULT,
};

const ENVIRONMENT: &[Item] = &[
    Item::new("objclass.register(fn)", "nothing; the global function `fn` becomes a method"),
    Item::new(
        "objclass.log([level,] …)",
        "the joined text, which goes to the log, at most 4 KiB of it",
    ),
    Item::new(
        "objclass.create(exclusive)",
        "nothing; with `exclusive` it fails if the object exists",
    ),
    Item::new("objclass.remove()", "nothing"),
    Item::new("objclass.stat()", "the size, and the time of the last change in seconds"),
    Item::new("objclass.read(offset, length)", "a buffer list; a length of 0 reads to the end"),
    Item::new("objclass.write(offset, length, bl)", "nothing; `length` is that of `bl`"),
    Item::new("objclass.write_full(bl)", "nothing; replaces the whole byte stream"),
    Item::new("objclass.getxattr(name)", "a buffer list; a missing attribute is `-ENODATA`"),
    Item::new("objclass.getxattrs()", "a table of buffer lists by name"),
    Item::new("objclass.setxattr(name, bl)", "nothing"),
    Item::new("objclass.map_get_val(key)", "a buffer list; a missing key is `-ENOENT`"),
    Item::new("objclass.map_set_val(key, bl)", "nothing"),
    Item::new("objclass.map_set_vals(values)", "nothing; `values` is a table of strings by key"),
    Item::new("objclass.map_remove_key(key)", "nothing"),
    Item::new("objclass.map_clear()", "nothing"),
    Item::new(
        "objclass.map_get_keys(after, max)",
        "a table with `true` for each key after `after`",
    ),
    Item::new("objclass.map_get_vals(after, prefix, max)", "a table of buffer lists by key"),
    Item::new("objclass.map_read_header()", "a buffer list"),
    Item::new("objclass.map_write_header(bl)", "nothing"),
    Item::new("objclass.current_version()", "the object's version"),
    Item::new("objclass.current_subop_num()", "0"),
    Item::new("objclass.current_subop_version()", "the version and `.0`, as a string"),
    Item::new(
        "objclass.register(fn, \"readonly\")",
        "nothing; the method may only read, and a write in it is `-EPERM`",
    ),
    Item::new("objclass.exists()", "whether the object exists"),
    Item::new("objclass.append(data)", "the offset at which the bytes were written"),
    Item::new("objclass.truncate(size)", "nothing"),
    Item::new("objclass.zero(offset, length)", "nothing"),
    Item::new("objclass.rmxattr(name)", "nothing; a missing attribute is `-ENODATA`"),
    Item::new("objclass.map_get(key)", "a buffer list, or nil if the key or the object is missing"),
    Item::new("objclass.map_get_str(key)", "the same as a string"),
    Item::new("objclass.map_set(key, data)", "nothing"),
    Item::new("objclass.map_set_parts(key, data, data)", "nothing; the value is both parts joined"),
    Item::new(
        "objclass.map_set_rest(key, data, from)",
        "nothing; the value is `data`, then the method's input from byte `from` on, counted from 1",
    ),
    Item::new(
        "objclass.hex_key(prefix, number)",
        "the prefix, then the number as fourteen hexadecimal digits",
    ),
    Item::new(
        "objclass.map_get_int(prefix, number)",
        "the value of the number's key as a string, or nil",
    ),
    Item::new("objclass.map_set_int(prefix, number, data)", "nothing"),
    Item::new(
        "objclass.map_set_int_rest(prefix, number, data, from)",
        "as `map_set_rest`, with the length of the rest between the parts, in four bytes, little-endian",
    ),
    Item::new(
        "objclass.map_last(prefix)",
        "the last key with the prefix and its buffer list, or nil",
    ),
    Item::new(
        "objclass.map_range(after, prefix, max)",
        "a list of keys, a list of their buffer lists, and whether there are more",
    ),
    Item::new(
        "objclass.map_page(after, prefix, max, bytes)",
        "a table of buffer lists by key, which ends once it holds `bytes` of values; then its last key if there are more",
    ),
    Item::new(
        "objclass.fail(status, message)",
        "never; the method fails with the negative `status` and the message",
    ),
    Item::new("objclass.now()", "the time of the call, in microseconds since 1970"),
    Item::new("objclass.source()", "the authenticated caller"),
    Item::new("bufferlist.new()", "an empty buffer list"),
    Item::new("bl:append(text)", "nothing; adds the bytes of a string"),
    Item::new("bl:str()", "the bytes as a string"),
];
