-- What is sent into channels, and what whoever delivers it asks for.
--
-- A message is a map entry, `~` and its number in fourteen hexadecimal digits: the name of its channel
-- (`s1`), its width (one byte), how many rows it is (`I4`, one), and its row as in a reply.

--- send: set names
-- Messages wait in the object, numbered, until whoever delivers them says that they are delivered.
local function send(object, messages, name, width, encode)
  table.sort(messages.keys)
  for at = 1, messages.count do
    object[1] = object[1] + 1
    object.is_changed = true
    local body = encode(messages.by[messages.keys[at]])
    set(string.format("~%014x", object[1]), pack("<s1I1I4", name, width, 1) .. body)
  end
end

--- outbox: page take fail protect
-- The methods of whoever delivers: the first messages that wait, and that those up to a number are
-- delivered.
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
  if #keys > 0 then
    output:append(pack("<s1I1I4", "message", 2, #keys))
  end
  for at = 1, #keys do
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
  local after = ""
  repeat
    local values
    values, after = page("~", after)
    for key in next, values do
      if tonumber(sub(key, 2), 16) <= upto then
        objclass.map_remove_key(key)
      end
    end
  until not after
  return 0
end
for _, name in next, { "channel_messages", "channel_delivered" } do
  if not objclass.fail then
    _G[name] = protect(_G[name])
  end
end
objclass.register(_G["channel_messages"], "readonly")
objclass.register(_G["channel_delivered"])
