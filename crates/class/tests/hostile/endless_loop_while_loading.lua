-- expect: exhausted
function h() end
objclass.register(h)
while true do end
