package protocol

// A Level is the severity of a log message (RFC 5424; MCP, Logging). 0 is no level.
type Level uint8

var levelNames = [...]string{"", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// LevelNames lists the levels for error messages.
const LevelNames = "one of debug, info, notice, warning, error, critical, alert and emergency"

// String returns the name of the level.
func (l Level) String() string { return levelNames[l] }

// LevelOf returns the level with that name, or 0.
func LevelOf(name string) Level {
	for level := 1; level < len(levelNames); level++ {
		if levelNames[level] == name {
			return Level(level)
		}
	}
	return 0
}

// logInfo is the level of log events without a level. logWarning is the level of this server's own
// messages.
const (
	logInfo    Level = 2
	logWarning Level = 4
)

// LevelEmergency is the highest level. A client that does not want it wants no log messages.
const LevelEmergency Level = 8
