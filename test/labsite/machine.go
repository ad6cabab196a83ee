package labsite

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"time"
)

var waitedFor = regexp.MustCompile(`some .* total=(\d+)`)

// waited returns for how long, since boot, at least one process of this machine could run and
// had no processor, as the kernel's pressure stall information has it.
func waited() (time.Duration, error) {
	const path = "/proc/pressure/cpu"
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	return parseWaited(string(text))
}

func parseWaited(text string) (time.Duration, error) {
	found := waitedFor.FindStringSubmatch(text)
	if found == nil {
		return 0, fmt.Errorf("it has no line for some: %q", text)
	}
	us, err := strconv.ParseInt(found[1], 10, 64)
	return time.Duration(us) * time.Microsecond, err
}

// busy tells how busy the machine was since a case began. All hosts of a lab and its clients
// share the machine: on one that is full, what clients notice says nothing of the site.
func (c *Case) busy() {
	now, err := waited()
	if err != nil || c.waited < 0 {
		return // a kernel without it
	}
	share := float64(now-c.waited) / float64(time.Since(c.began))
	c.Logf("for %.0f %% of the time somebody on this machine waited for a processor (an idle lab of two hosts: 55 to 60 %% on two cores)", 100*share)
}
