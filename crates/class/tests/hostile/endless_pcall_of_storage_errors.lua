-- expect: exhausted
function h() while true do pcall(objclass.create, true) end end
objclass.register(h)
