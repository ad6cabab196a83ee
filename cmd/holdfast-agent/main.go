// Command holdfast-agent sets up a host as its configuration says, and keeps
// the host's part of the cluster in step.
package main

import (
	"os"
	_ "time/tzdata" // some hosts have no time zones

	"github.com/holdfast/holdfast/internal/agent"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func main() { os.Exit(command.Main(agent.Run)) }
