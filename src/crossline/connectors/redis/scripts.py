"""What the Redis sink does in one step each, so that a kill leaves all of it or nothing."""

from __future__ import annotations

# What stands for an entity, anew: the gravest of what is in force. Where a graver action ends before a lesser one, the
# entity is noted as due then.
#
# Who is in force is told by Redis's own clock: those who ask and those who tell then mean the same instant.
_STAND = """
local now = redis.call('TIME')
local now_ms = now[1] * 1000 + math.floor(now[2] / 1000)
local function stand(entity_key, standing_key, due_key, entity)
  local standing = redis.call('HGETALL', standing_key)
  local best, best_id, last_ms = nil, nil, 0
  for i = 1, #standing, 2 do
    local each = {}
    for field in string.gmatch(standing[i + 1], '[^|]+') do each[#each + 1] = field end
    local rank, score, until_ms = tonumber(each[1]), tonumber(each[2]), tonumber(each[3])
    if until_ms <= now_ms then
      redis.call('HDEL', standing_key, standing[i])
    else
      if until_ms > last_ms then last_ms = until_ms end
      local graver = best == nil or rank > best.rank or (rank == best.rank and (score > best.score or
        (score == best.score and (until_ms > best.until_ms or (until_ms == best.until_ms and standing[i] < best_id)))))
      if graver then
        best = {rank = rank, score = score, until_ms = until_ms, action = each[4], rule = each[5], version = each[6]}
        best_id = standing[i]
      end
    end
  end
  redis.call('DEL', entity_key)
  if best == nil then
    redis.call('ZREM', due_key, entity)
    return
  end
  local text = string.format('%.0f', best.until_ms)
  redis.call('HSET', entity_key, 'action', best.action, 'score', best.score, 'alert_id', best_id, 'rule_id', best.rule,
    'rule_version', best.version, 'until_ms', text)
  redis.call('PEXPIREAT', entity_key, text)
  redis.call('PEXPIREAT', standing_key, string.format('%.0f', last_ms))
  if last_ms > best.until_ms then
    redis.call('ZADD', due_key, text, entity)
  else
    redis.call('ZREM', due_key, entity)
  end
end
"""
# An alert once: where its key is there, nothing is done. A script is one step for everybody else, but what it did stays
# where a call in it fails (somebody has put another type there): the key is set last, and the rest done again.
#
# KEYS: alert, stream, entity, standing, figure, due. ARGV: alert's JSON, seconds that ids are known, longest stream,
# alert id, KEY, what is done ("stands", "gone" or "none"), rank, score, action, rule, version, the alert whose standing
# it is, milliseconds that it is in force, figure's JSON or "".
#
# A correction changes a figure only where it is that of the alert which it corrects, or of none.
TELL_ALERT = (
    _STAND
    + """
local function tell_figure()
  local known = redis.call('GET', KEYS[5])
  local correction = ARGV[12] ~= ARGV[4]
  if correction and known and cjson.decode(known).alert_id ~= ARGV[12] then return end
  if ARGV[14] ~= '' then
    redis.call('SET', KEYS[5], ARGV[14], 'PX', ARGV[13])
  elseif correction then
    redis.call('DEL', KEYS[5])
  end
end
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[6] == 'gone' then
  redis.call('HDEL', KEYS[4], ARGV[12])
elseif ARGV[6] == 'stands' then
  local until_ms = string.format('%.0f', now_ms + ARGV[13])
  redis.call('HSET', KEYS[4], ARGV[12], table.concat({ARGV[7], ARGV[8], until_ms, ARGV[9], ARGV[10], ARGV[11]}, '|'))
end
if ARGV[6] ~= 'none' then stand(KEYS[3], KEYS[4], KEYS[6], ARGV[5]) end
tell_figure()
redis.call('XADD', KEYS[2], 'MAXLEN', '~', ARGV[3], '*', 'alert_id', ARGV[4], 'key', ARGV[5], 'alert', ARGV[1])
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
return 1
"""
)
# The entities whose gravest action has ended, and that have a lesser one. KEYS: due. ARGV: what the keys of entities
# and of standings begin with, the most that are looked at.
TELL_DUE = (
    _STAND
    + """
for _, entity in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms, 'LIMIT', 0, ARGV[3])) do
  stand(ARGV[1] .. entity, ARGV[2] .. entity, KEYS[1], entity)
end
return 1
"""
)
# A decision: the newest of its record stays, whichever comes last. KEYS: decision. ARGV: JSON, revision, seconds.
# The policy's version goes before the number of the revision: a new one decides about a record anew.
TELL_DECISION = """
local known = redis.call('GET', KEYS[1])
if known then
  local was = cjson.decode(known)
  local version, revision = tonumber(ARGV[2]), tonumber(ARGV[3])
  if was.policy_version > version or (was.policy_version == version and was.revision > revision) then return 0 end
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[4])
return 1
"""
