# SPDX-License-Identifier: MIT
<#
.SYNOPSIS
Looks at this machine and tries Sluice on it. Writes sluice-report.txt, which you can send with a question.
.DESCRIPTION
It is in the folder that has bin\sluice.exe, or beside sluice.exe. It changes nothing. The report names your GPUs, programs and
the environment variables of CUDA, cuda-link and Sluice.
.EXAMPLE
powershell -ExecutionPolicy Bypass -File sluice-check.ps1 -Python C:\Python311\python.exe
#>
param(
    [string]$Python,
    [string]$Sluice,
    [string]$Report = 'sluice-report.txt'
)

[Console]::OutputEncoding = [Text.Encoding]::UTF8
$here = Split-Path -Parent $MyInvocation.MyCommand.Path
$channel = 'cipd:sluice-check'
$picture = Join-Path ([IO.Path]::GetTempPath()) 'sluice-check.png'
$lines = New-Object System.Collections.Generic.List[string]
$failed = 0

function Say([string]$text) {
    $lines.Add($text)
    Write-Host $text
}

# Runs a program. It has failed unless its code is 0.
function Step([string]$title, [string]$program, [string[]]$arguments) {
    Say ''
    Say "== $title"
    & $program $arguments 2>&1 | ForEach-Object { Say "$_" }
    if ($LASTEXITCODE -ne 0) {
        Say "FAILED with code $LASTEXITCODE"
        $script:failed += 1
    }
}

if (-not $Sluice) {
    $Sluice = "$here\bin\sluice.exe", "$here\sluice.exe" | Where-Object { Test-Path $_ } | Select-Object -First 1
}
if (-not $Sluice) {
    Write-Host 'sluice-check: there is no sluice.exe beside this script or in bin: name it by -Sluice'
    exit 2
}

Say "sluice-check, $(Get-Date -Format u)"
Say "$([Environment]::OSVersion.VersionString), PowerShell $($PSVersionTable.PSVersion)"
Step 'version' $Sluice @('--version')
if (Get-Command nvidia-smi -ErrorAction SilentlyContinue) {
    Step 'GPUs' 'nvidia-smi' @('--query-gpu=name,driver_version,driver_model.current,memory.total', '--format=csv')
}

Say ''
Say '== variables'
Get-ChildItem Env: | Where-Object { $_.Name -match '^(CUDA|CUDALINK|SLUICE)_' } | ForEach-Object { Say "$($_.Name)=$($_.Value)" }
Step 'doctor' $Sluice @('doctor')
Step 'doctor, as JSON' $Sluice @('doctor', '--json')
Step 'channels now' $Sluice @('ls')

# A channel, while it plays
$play = @('play', 'test', $channel, '--size', '640x360', '--format', 'bgra', '--frames', '1800')
$player = Start-Process -FilePath $Sluice -ArgumentList $play -PassThru -WindowStyle Hidden
Step 'snap' $Sluice @('snap', $channel, $picture, '--timeout', '20')
Step 'info' $Sluice @('info', $channel)
Step 'top' $Sluice @('top', '--once', $channel)
if (-not $Python) {
    $found = Get-Command python -ErrorAction SilentlyContinue
    if ($found) { $Python = $found.Source }
}
if ($Python) {
    Step "Python: $Python" $Python @("$here\sluice_check.py", $channel)
} else {
    Say ''
    Say '== Python: none; name one by -Python'
}
if (-not $player.HasExited) { Stop-Process -Id $player.Id }
if (Test-Path $picture) { Remove-Item $picture }

Say ''
Say "sluice-check: $failed failed"
[IO.File]::WriteAllLines($ExecutionContext.SessionState.Path.GetUnresolvedProviderPathFromPSPath($Report), $lines)
Write-Host "The report is in $Report"
if ($failed) { exit 1 }
