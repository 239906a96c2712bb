--!cls_lua
function add(input, output)
  local found, count = pcall(objclass.map_get_val, "count")
  local sum = (found and tonumber(count:str()) or 0) + tonumber(input:str())
  local value = bufferlist.new()
  value:append(tostring(sum))
  objclass.map_set_val("count", value)
  output:append(tostring(sum))
end
objclass.register(add)
