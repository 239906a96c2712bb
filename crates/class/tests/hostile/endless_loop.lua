-- expect: exhausted
function h() while true do end end
objclass.register(h)
