-- expect: exhausted
function h() while true do objclass.log('spam') end end
objclass.register(h)
