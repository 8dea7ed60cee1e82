// Prints a compose file as compose reads it, with its variables and paths resolved; fails where it is none.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/compose-spec/compose-go/v2/cli"
)

func main() {
	options, err := cli.NewProjectOptions(os.Args[1:], cli.WithOsEnv, cli.WithResolvedPaths(true))
	if err == nil {
		var project, failed = options.LoadProject(context.Background())
		if err = failed; err == nil {
			out, _ := project.MarshalYAML()
			fmt.Println(string(out))
			return
		}
	}
	fmt.Fprintln(os.Stderr, "error:", err)
	os.Exit(1)
}
