-- The class for measuring an engine: makes the same access `count` times in one transaction. The tuner's binary
-- contains this source.
--
-- A request is the kind of access (1 byte), `count` (1 byte), the number of the first item to access (4), the bytes
-- of each access (4), then the data to write. An item is a map entry, a part of the stream or an attribute; each
-- object has NUMBERS items of each kind.

local NUMBERS, RANGE = 16, 8
local MAX_STREAM = 64 * 1024 * 1024

local function parts(input)
	local text = input:str()
	local access, count, first, bytes = string.unpack("<BBI4I4", text)
	return access, count, first, bytes, string.sub(text, 11)
end

local function key(number)
	return string.format("%08d", number % NUMBERS)
end

local looks = {
	[0] = function() end,
	function() objclass.stat() end,
	function(number) objclass.map_get_val(key(number)) end,
	function() objclass.map_get_vals("", "", RANGE) end,
	function(number, bytes) objclass.read(number % NUMBERS * bytes, bytes) end,
	function(number) objclass.getxattr(key(number % 4)) end,
}

local changes = {
	[6] = function(number, list) objclass.map_set_val(key(number), list) end,
	[7] = function(number) objclass.map_remove_key(key(number)) end,
	[8] = function(number, list, bytes) objclass.write(number % NUMBERS * bytes, bytes, list) end,
	[9] = function(_, _, bytes, data)
		-- An object is bounded; that it is cut now and then counts little.
		if objclass.stat() > MAX_STREAM then
			objclass.truncate(NUMBERS * bytes)
		end
		objclass.append(data)
	end,
	[10] = function(number, list) objclass.setxattr(key(number % 4), list) end,
}

function look(input)
	local access, count, first, bytes = parts(input)
	for number = first, first + count - 1 do
		looks[access](number, bytes)
	end
end
objclass.register(look, "readonly")

function change(input)
	local access, count, first, bytes, data = parts(input)
	local list = bufferlist.new()
	list:append(data)
	for number = first, first + count - 1 do
		changes[access](number, list, bytes, data)
	end
end
objclass.register(change)
