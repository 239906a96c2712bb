-- expect: fault
function h() return 1 + h() end
objclass.register(h)
