package host

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ProcessStat is a part of the kernel's data of a process (proc(5), stat).
type ProcessStat struct {
	// Name is the kernel's name of it, cut off after 15 bytes.
	Name string
	// Letter is its state as ps shows it.
	Letter string
	// Parent is the process that started it, or adopted it.
	Parent int
	// Started is the time of its start, in clock ticks since the kernel's boot.
	Started uint64
}

// Ended reports whether the process has ended, and only has not been waited
// for.
func (p ProcessStat) Ended() bool { return strings.Contains("ZXx", p.Letter) }

var errStat = errors.New("the stat file of a process cannot be parsed")

// ParseStat parses the content of /proc/PID/stat. The second field, the name,
// may contain blanks and brackets.
func ParseStat(data []byte) (ProcessStat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return ProcessStat{}, errStat
	}
	fields := strings.Fields(string(data[end+1:]))
	const startTime = 22 - 3 // the fields begin with the third
	if len(fields) <= startTime {
		return ProcessStat{}, errStat
	}
	started, err := strconv.ParseUint(fields[startTime], 10, 64)
	if err != nil {
		return ProcessStat{}, fmt.Errorf("%w: %w", errStat, err)
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return ProcessStat{}, fmt.Errorf("%w: %w", errStat, err)
	}
	return ProcessStat{Name: string(data[open+1 : end]), Letter: fields[0], Parent: parent, Started: started}, nil
}
