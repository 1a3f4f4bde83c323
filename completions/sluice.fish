# SPDX-License-Identifier: MIT
# Completion for fish. `sluice __complete WORDS` prints the candidates.

function __sluice_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    # Without quotes, including one that is still open.
    set -l plain (string unescape -- $current; or string trim --left --chars "'\"" -- $current)
    # For --clip=PATH fish completes the path, and the option is prepended again.
    set -l option (string match --regex -- '^--[^=]*=' $current)
    set -l path (string replace --regex -- '^--[^=]*=' '' $current)
    for line in ($words[1] __complete $words[2..-1] "$plain" 2>/dev/null)
        switch $line
            case :files
                printf "$option%s\n" (__fish_complete_path $path '')
            case :folders
                printf "$option%s\n" (__fish_complete_directories $path '')
            case '*'
                echo $line
        end
    end
end

complete --command sluice --no-files --arguments '(__sluice_complete)'
