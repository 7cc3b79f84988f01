local first = tonumber(ARGV[1])
local last = math.min(first + tonumber(ARGV[2]), tonumber(redis.call('HGET', KEYS[1], 'n') or '0')) - 1
local entries, size = {}, 0
for i = first, last do
	local entry = redis.call('HGET', KEYS[1], string.format('%d', i))
	if not entry then break end
	size = size + #entry
	if #entries > 0 and size > tonumber(ARGV[3]) then break end
	entries[#entries + 1] = entry
end
return entries
