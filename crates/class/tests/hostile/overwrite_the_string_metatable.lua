-- expect: fault
function h() getmetatable('').__index.rep = nil end
objclass.register(h)
