package agent

import (
	"github.com/spf13/cobra"

	"github.com/holdfast/holdfast/internal/command"
)

// commands lists the verbs of holdfast-agent, one constructor a file.
func commands(streams command.Streams) []*cobra.Command {
	return []*cobra.Command{
		newInstall(streams),
		newRun(streams),
		newApply(streams),
		newTwoNode(streams),
		newVersion(streams),
	}
}
