local now = redis.call('HMGET', KEYS[1], 'r', 'n')
local revision, length = now[1] or '', tonumber(now[2] or '0')
if revision == ARGV[2] then return {1, 0} end
if ARGV[1] ~= '*' and ARGV[1] ~= revision then return {0, 0} end
local stored = redis.call('HMGET', KEYS[1], 'o', 'b')
local owner = ARGV[9]
if owner == '' then owner = stored[1] or '' end
local grown, logged = 0, tonumber(stored[2] or '0')
if ARGV[3] == 'delete' then
	if owner ~= '' then grown = forget(stored[1] or owner, ARGV[8]) end
	redis.call('UNLINK', KEYS[1])
	for i = 2, #KEYS do redis.call('ZREM', KEYS[i], ARGV[8]) end
else
	local more = #ARGV - 14
	if length + more > tonumber(ARGV[6]) then return {-1, 0} end
	local value = ARGV[4]
	if owner ~= '' then
		local size = #value
		if ARGV[3] ~= 'set' and revision ~= '' then size = redis.call('HSTRLEN', KEYS[1], 'v') end
		for i = 1, more do logged = logged + #ARGV[14 + i] end
		if stored[1] and stored[1] ~= owner then grown = forget(stored[1], ARGV[8]) end
		local evictable, freed = ARGV[10] == '1', 0
		local full
		full, freed = makeRoom(owner, kib(size + logged) - held(owner, ARGV[8]), ARGV[8])
		grown = grown - freed
		if full then
			if not evictable or ARGV[11] == '' then return {-2, grown} end
			value, evictable, size = ARGV[11], false, #ARGV[11]
		end
		grown = grown + remember(owner, ARGV[8], kib(size + logged), ARGV[5], evictable)
		redis.call('HSET', KEYS[1], 'o', owner, 'b', string.format('%d', logged))
		if evictable and ARGV[11] ~= '' then redis.call('HSET', KEYS[1], 't', ARGV[11]) else redis.call('HDEL', KEYS[1], 't') end
	end
	for i = 1, more do
		redis.call('HSET', KEYS[1], string.format('%d', length + i - 1), ARGV[14 + i])
	end
	if ARGV[3] == 'set' or revision == '' then
		redis.call('HSET', KEYS[1], 'v', value)
	end
	redis.call('HSET', KEYS[1], 'r', ARGV[2], 'n', string.format('%d', length + more))
	redis.call('PEXPIRE', KEYS[1], ARGV[5])
	if KEYS[2] then
		local clock = redis.call('TIME')
		local time = clock[1] * 1000 + math.floor(clock[2] / 1000)
		if revision == '' then
			for _, expired in ipairs(redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', string.format('%d', time), 'LIMIT', 0, 4)) do
				redis.call('ZREM', KEYS[2], expired)
				redis.call('ZREM', KEYS[3], expired)
			end
			redis.call('ZADD', KEYS[2], 0, ARGV[8])
		end
		redis.call('ZADD', KEYS[3], string.format('%d', time + ARGV[5]), ARGV[8])
	end -- of the index
end
redis.call('PUBLISH', ARGV[7], ARGV[8])
return {1, grown}
