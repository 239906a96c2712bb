-- Sends messages into channels, and lets an application fetch them.
--
-- A message is a map entry. Its key is `~` (for the application) or `>` (for the runtime), followed by the number
-- of the message in fourteen hexadecimal digits. Its value is, in this order: the sender (`s1`, only for the
-- runtime), the name of the channel (`s1`), the width of the row (one byte), the number of rows (`I4`, always
-- one), and the row, encoded as in a reply.

--- room: names fail

-- How many messages one request may send, and how many of an object's messages may wait for delivery.
local MAX_SENT, MAX_WAITING = 1024, 4096
-- Refuses to send more than may wait, before anything is written.
local function room(object, field, prefix, count)
  if count > MAX_SENT then
    fail(-28, "a request sends " .. count .. " messages, at most " .. MAX_SENT .. " are possible")
  end
  if count == 0 or object.is_new then
    return
  end
  local first = next(objclass.map_get_vals("", prefix, 1))
  if first and object[field] + count - tonumber(sub(first, 2), 16) >= MAX_WAITING then
    fail(-28, "too many messages wait to be delivered")
  end
end

--- put_messages: set names

-- Stores messages, numbered, with what else the request changes.
local function put_messages(object, field, prefix, messages, encode)
  table.sort(messages.keys)
  for at = 1, messages.count do
    object[field] = object[field] + 1
    object.is_changed = true
    set(string.format("%s%014x", prefix, object[field]), encode(messages.by[messages.keys[at]]))
  end
end

--- send: put_messages

-- Messages that wait until the application says that they are delivered.
local function send(object, field, messages, name, width, encode)
  put_messages(object, field, "~", messages, function(row)
    return pack("<s1I1I4", name, width, 1) .. encode(row)
  end)
end

--- source

-- The sender of the request; a stock OSD does not tell it.
local source = objclass.source or function()
  return ""
end

--- post: put_messages source

-- Stores messages that the runtime delivers on behalf of the request's sender.
local function post(object, field, messages, name, width, encode)
  put_messages(object, field, ">", messages, function(row)
    return pack("<s1s1I1I4", source(), name, width, 1) .. encode(row)
  end)
end

--- post_removal: post

-- Stores the message that removes the object: only one, even if several rows of the request ask for the removal. Stores
-- the message's number in the header.
local function post_removal(object, field, removal, messages, name, width, encode)
  if messages.count > 0 then
    table.sort(messages.keys)
    local key = messages.keys[1]
    local one = { keys = { key }, by = messages.by, count = 1 }
    post(object, field, one, name, width, encode)
    object[removal] = object[field]
  end
end

--- recall: names

-- An object that changes before its removal is not removed: the message is deleted.
local function recall(object, removal)
  if object[removal] > 0 then
    objclass.map_remove_key(string.format(">%014x", object[removal]))
    object[removal] = 0
    object.is_changed = true
  end
end

--- outbox: page take fail protect

-- The methods by which an application fetches messages. `channel_messages` returns the oldest waiting messages: as
-- many as fit into a reply, but at least one. `channel_delivered` deletes all messages up to a given number.
local MESSAGES_BYTES = 4194304
_G["channel_messages"] = function(input, output)
  if #input > 0 then
    fail(-22, "the request is no row of channel_messages, []")
  end
  local values = page("~", "")
  local keys = {}
  for key in next, values do
    keys[#keys + 1] = key
  end
  table.sort(keys)
  local count, bytes = 0, 0
  while count < #keys and bytes < MESSAGES_BYTES do
    count = count + 1
    bytes = bytes + #values[keys[count]]
  end
  if count > 0 then
    output:append(pack("<s1I1I4", "message", 2, count))
  end
  for at = 1, count do
    local number = tonumber(sub(keys[at], 2), 16)
    output:append(pack("<c1i8c1s4", "i", number, "b", values[keys[at]]:str()))
  end
  return 0
end
_G["channel_delivered"] = function(input)
  local text = input:str()
  local upto, at = take(text, 1, "i")
  if at ~= #text + 1 then
    fail(-22, "the request is no row of channel_delivered, [:number:int]")
  end
  -- Read only the keys, because the messages to delete need not all fit into memory. The keys of messages are the
  -- last keys of the map, so this loop meets no other keys.
  local after, count, stays = "~", 0, false
  repeat
    local keys = objclass.map_get_keys(after, PAGE)
    count = 0
    for key in next, keys do
      count = count + 1
      if key > after then
        after = key
      end
      if sub(key, 1, 1) == "~" and tonumber(sub(key, 2), 16) <= upto then
        objclass.map_remove_key(key)
      else
        stays = true
      end
    end
  until stays or count < PAGE
  return 0
end
for _, name in next, { "channel_messages", "channel_delivered" } do
  if not objclass.fail then
    _G[name] = protect(_G[name])
  end
end
objclass.register(_G["channel_messages"], "readonly")
objclass.register(_G["channel_delivered"])
