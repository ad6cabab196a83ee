// Command holdfast builds, installs and looks after Kubernetes clusters on
// one, two or three machines.
package main

import (
	"os"
	_ "time/tzdata" // an image and some hosts have no time zones

	"github.com/holdfast/holdfast/internal/cli"
	"github.com/holdfast/holdfast/internal/cli/command"
)

func main() { os.Exit(command.Main(cli.Run)) }
