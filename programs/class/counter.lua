--!cls_lua
-- Numbers are doubles: past 2^53 they are not exact.
local function whole(number)
  if not number or number % 1 ~= 0 or math.abs(number) >= 2^53 then
    error("add whole numbers, to a sum below 2^53", 0)
  end
  return number
end

function add(input, output)
  local found, count = pcall(objclass.map_get_val, "count")
  local sum = whole((found and tonumber(count:str()) or 0) + whole(tonumber(input:str())))
  local value = bufferlist.new()
  value:append(tostring(sum))
  objclass.map_set_val("count", value)
  output:append(tostring(sum))
end
objclass.register(add)
